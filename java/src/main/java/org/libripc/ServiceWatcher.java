// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/** Who is told when a service appears and when it ends: {@link Ripc#watch}. */
@FunctionalInterface
public interface ServiceWatcher {
  /**
   * Runs in the context's responder thread, which all callbacks share: be short, and hand over what
   * takes long. It may send, post windows and close anything. What it throws goes to the thread's
   * uncaught exception handler.
   *
   * @param status {@link Status#OK}: the service is there. {@link Status#CLOSED}: its holder
   *     unregistered it, or lost the ID. {@link Status#PEER_DEAD}: its process ended, or cannot be
   *     reached any more. {@link Status#FENCED}: a newer registration has the ID by now, and is
   *     told of next.
   * @param info where it is, or what it was
   */
  void changed(Status status, ServiceInfo info);
}
