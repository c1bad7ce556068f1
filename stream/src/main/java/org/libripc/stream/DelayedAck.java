// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/**
 * Decides whether the acknowledgement of an awaited message waits for the next message to the other
 * side. It does after some alternating requests and answers, like TCP's delayed acknowledgement. A
 * separate message would wake the other side for nothing after each large answer.
 *
 * <p>Guarded by its {@link Outbound}.
 */
final class DelayedAck {
  /** How many awaited messages in a row this side must have answered. */
  static final int ENOUGH = 8;

  private int ends; // awaited messages in a row after which this side has sent
  private boolean awaited; // the last message that came
  private boolean spoken; // this side has sent since then

  /** Called when a message of the stream has come. */
  void received(boolean isAwaited) {
    if (awaited) ends = spoken ? ends + 1 : 0;
    awaited = isAwaited;
    spoken = false;
  }

  /** Called when a message was sent. */
  void sent() {
    spoken = true;
  }

  /** Whether the acknowledgement waits for the next message to the other side. */
  boolean isDelayed() {
    return ends >= ENOUGH;
  }
}
