// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/**
 * Whether to spin for the next message before a wait. Each spin in vain is followed by twice as
 * many messages without one, until a spin finds its message. So little is lost where others need
 * the processor.
 *
 * <p>One thread at a time.
 */
final class AdaptiveSpin {
  /** Messages without a spin, after spins in vain, at most. */
  static final int MOST_SKIPPED = 1024;

  private int skips = 1; // after the next spin in vain
  private int left; // messages that come without a spin

  /** Whether to spin now. */
  boolean maySpin() {
    return left == 0;
  }

  /** A spin has found nothing. */
  void missed() {
    left = skips;
    skips = Math.min(2 * skips, MOST_SKIPPED);
  }

  /** A spin has found a message. */
  void hit() {
    skips = 1;
  }

  /** A message was waited for. */
  void waited() {
    if (left > 0) --left;
  }
}
