// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.List;

/** What a notification runs. */
@FunctionalInterface
public interface NotificationHandler {
  /**
   * Runs in the context's responder thread, which all callbacks share: be short, and hand over what
   * takes long. It may send, post windows and close anything. What it throws goes to the thread's
   * uncaught exception handler.
   *
   * @param source who notified
   * @param items copies of the arguments, the handler's to keep; read only
   */
  void notified(ServiceId source, List<ByteBuffer> items);
}
