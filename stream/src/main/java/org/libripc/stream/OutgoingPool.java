// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.concurrent.atomic.AtomicReferenceArray;
import org.libripc.Outgoing;

/**
 * Reusable messages to send. Each has some KiB of memory, too much to keep one for each connection
 * or for each of many threads.
 *
 * <p>Any thread.
 */
final class OutgoingPool {
  private static final int KEPT = 16;

  private final AtomicReferenceArray<Outgoing> kept = new AtomicReferenceArray<>(KEPT);

  /** Takes an empty message. */
  Outgoing take() {
    for (int index = 0; index < KEPT; ++index) {
      Outgoing message = kept.get(index) == null ? null : kept.getAndSet(index, null);
      if (message != null) return message;
    }
    return new Outgoing();
  }

  /** Gives a message back; the caller no longer uses it. */
  void giveBack(Outgoing message) {
    message.clear();
    for (int index = 0; index < KEPT; ++index) {
      if (kept.get(index) == null && kept.compareAndSet(index, null, message)) return;
    }
  }
}
