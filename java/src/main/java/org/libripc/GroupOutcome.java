// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.util.List;

/**
 * The outcome of sending a message to a group. Immutable.
 *
 * @param members known living members; 0 if the destination was no group
 * @param taken the members that the message was sent to
 * @param missed the first 64 of the other members; without those beyond the 4096 that a group may
 *     have
 */
public record GroupOutcome(int members, int taken, List<ServiceId> missed) {}
