// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class AdaptiveSpinTest {
  private final AdaptiveSpin spin = new AdaptiveSpin();

  /** Counts the messages that come without a spin, until the next spin. */
  private int skipped() {
    int count = 0;
    for (; !spin.maySpin(); ++count) spin.waited();
    return count;
  }

  @Test
  void aSpinThatFindsItsMessageIsFollowedByAnother() {
    for (int count = 0; count < 1000; ++count) {
      assertTrue(spin.maySpin());
      spin.hit();
    }
  }

  @Test
  void afterSpinsInVainTwiceAsManyMessagesComeWithout() {
    for (int expected = 1; expected < AdaptiveSpin.MOST_SKIPPED; expected *= 2) {
      spin.missed();
      assertFalse(spin.maySpin());
      assertEquals(expected, skipped());
    }
    for (int count = 0; count < 3; ++count) {
      spin.missed();
      assertEquals(AdaptiveSpin.MOST_SKIPPED, skipped());
    }
  }

  @Test
  void oneThatFindsItsMessageEndsThat() {
    for (int count = 0; count < 10; ++count) {
      spin.missed();
      skipped();
    }
    spin.hit();
    spin.missed();
    assertEquals(1, skipped());
  }
}
