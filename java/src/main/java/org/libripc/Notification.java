// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/**
 * Names a callback of a service. Plain values, to be passed to peers in a message. Immutable.
 *
 * @param service whose callback it is
 * @param handle which one; unguessable
 */
public record Notification(ServiceId service, long handle) {}
