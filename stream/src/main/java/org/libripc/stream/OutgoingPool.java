// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.concurrent.atomic.AtomicReferenceArray;
import org.libripc.Outgoing;

/**
 * Messages to send that are used again. Each has some KiB of memory, which is too much for each
 * thread, where there may be many, or each connection.
 *
 * <p>Any thread.
 */
final class OutgoingPool {
  private static final int KEPT = 16;

  private final AtomicReferenceArray<Outgoing> kept = new AtomicReferenceArray<>(KEPT);

  /** An empty one. */
  Outgoing take() {
    for (int index = 0; index < KEPT; ++index) {
      Outgoing message = kept.get(index) == null ? null : kept.getAndSet(index, null);
      if (message != null) return message;
    }
    return new Outgoing();
  }

  /** Nobody else uses it any more. */
  void giveBack(Outgoing message) {
    message.clear();
    for (int index = 0; index < KEPT; ++index) {
      if (kept.get(index) == null && kept.compareAndSet(index, null, message)) return;
    }
  }
}
