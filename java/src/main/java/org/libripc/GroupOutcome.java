// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.util.List;

/**
 * What became of a message to a group. Immutable.
 *
 * @param members living ones that are known; 0 if the destination was no group
 * @param taken of these, those that the message was sent to
 * @param missed the first 64 of the others
 */
public record GroupOutcome(int members, int taken, List<ServiceId> missed) {}
