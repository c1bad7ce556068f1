// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/**
 * Whether the acknowledgement of an awaited message waits for the next message to the other side.
 * It does after some requests and answers in turn, as a delayed acknowledgement of TCP does. A
 * message for it alone would wake the other side for nothing, for each large answer.
 *
 * <p>Guarded by its {@link Outbound}.
 */
final class DelayedAck {
  /** So often in a row it must have waited. */
  static final int ENOUGH = 8;

  private int ends; // awaited messages in a row after which this side has spoken
  private boolean awaited; // what was heard last
  private boolean spoken; // since then

  /** A message of the stream has come. */
  void received(boolean isAwaited) {
    if (awaited) ends = spoken ? ends + 1 : 0;
    awaited = isAwaited;
    spoken = false;
  }

  /** One was sent. */
  void sent() {
    spoken = true;
  }

  /** Whether it waits for the next message to the other side. */
  boolean isDelayed() {
    return ends >= ENOUGH;
  }
}
