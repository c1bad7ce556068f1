// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

/**
 * What the other side does after a message that it waits for the end of: goes on, in the midst of
 * an answer, or waits for something from here, the next request. Then nothing need be sent to it
 * before that.
 *
 * <p>Guarded by its {@link Outbound}.
 */
final class Habit {
  /** So often in a row it must have waited. */
  static final int ENOUGH = 8;

  private int ends; // awaited messages in a row after which this side has spoken
  private boolean awaited; // what was heard last
  private boolean spoken; // since then

  /** A message of the stream has come. */
  void heard(boolean isAwaited) {
    if (awaited) ends = spoken ? ends + 1 : 0;
    awaited = isAwaited;
    spoken = false;
  }

  /** One was sent. */
  void spoke() {
    spoken = true;
  }

  /** Whether the other side may go on when it knows that its message was read. */
  boolean mayGoOn() {
    return ends < ENOUGH;
  }
}
