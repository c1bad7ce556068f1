// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/** Is called when a service appears and when it ends: {@link Ripc#watch}. */
@FunctionalInterface
public interface ServiceWatcher {
  /**
   * Runs in the context's responder thread, which all callbacks share: be short, and hand over work
   * that takes long. It may send, post windows and close anything. Exceptions go to the thread's
   * uncaught exception handler.
   *
   * @param status {@link Status#OK}: the service is there. {@link Status#CLOSED}: its holder
   *     unregistered it, or lost the ID. {@link Status#PEER_DEAD}: its process ended, or cannot be
   *     reached any more. {@link Status#FENCED}: a newer registration has the ID by now, and the
   *     next call reports it.
   * @param info where it is, or what it was
   */
  void changed(Status status, ServiceInfo info);
}
