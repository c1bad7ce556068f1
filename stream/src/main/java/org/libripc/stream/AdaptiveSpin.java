// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/**
 * Whether it is worth to look for the next message before a wait. Each look in vain is followed by
 * twice as many messages without one, until a look has found its message.
 *
 * <p>One thread at a time.
 */
final class AdaptiveSpin {
  /** Messages without a look, after looks in vain, at most. */
  static final int MOST_SKIPPED = 1024;

  private int skips = 1; // after the next look in vain
  private int left; // messages that come without a look

  /** Whether to look now. */
  boolean maySpin() {
    return left == 0;
  }

  /** A look has found nothing. */
  void missed() {
    left = skips;
    skips = Math.min(2 * skips, MOST_SKIPPED);
  }

  /** A look has found a message. */
  void hit() {
    skips = 1;
  }

  /** A message was waited for. */
  void waited() {
    if (left > 0) --left;
  }
}
