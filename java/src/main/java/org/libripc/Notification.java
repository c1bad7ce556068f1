// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/**
 * Names a callback of a service. Consists of plain values, to be sent to peers in a message.
 * Immutable.
 *
 * @param service the service that has the callback
 * @param handle which callback; unguessable
 */
public record Notification(ServiceId service, long handle) {}
