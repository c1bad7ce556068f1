// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/**
 * Decides whether to spin for the next message before a wait. After each spin that finds nothing,
 * twice as many messages come without a spin, until a spin finds its message. So little time is
 * lost when others need the processor.
 *
 * <p>One thread at a time.
 */
final class AdaptiveSpin {
  /** The most messages without a spin, after spins that found nothing. */
  static final int MOST_SKIPPED = 1024;

  private int skips = 1; // after the next spin that finds nothing
  private int left; // messages that come without a spin

  /** Whether to spin now. */
  boolean maySpin() {
    return left == 0;
  }

  /** Called when a spin has found nothing. */
  void missed() {
    left = skips;
    skips = Math.min(2 * skips, MOST_SKIPPED);
  }

  /** Called when a spin has found a message. */
  void hit() {
    skips = 1;
  }

  /** Called when a message came after a wait. */
  void waited() {
    if (left > 0) --left;
  }
}
