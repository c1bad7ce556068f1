// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.List;

/** The code that a notification runs. */
@FunctionalInterface
public interface NotificationHandler {
  /**
   * Runs in the context's responder thread, which all callbacks share: be short, and hand over work
   * that takes long. It may send, post windows and close anything. Exceptions go to the thread's
   * uncaught exception handler.
   *
   * @param source the service that notified
   * @param items copies of the arguments, which the handler may keep; read only
   */
  void notified(ServiceId source, List<ByteBuffer> items);
}
