// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class PaceTest {
  private final Pace pace = new Pace();

  /** Messages that come without a look, until the next one. */
  private int skipped() {
    int count = 0;
    for (; !pace.mayLook(); ++count) pace.came();
    return count;
  }

  @Test
  void aLookThatFindsItsMessageIsFollowedByAnother() {
    for (int count = 0; count < 1000; ++count) {
      assertTrue(pace.mayLook());
      pace.seen();
    }
  }

  @Test
  void afterLooksInVainTwiceAsManyMessagesComeWithout() {
    for (int expected = 1; expected < Pace.MOST_SKIPPED; expected *= 2) {
      pace.inVain();
      assertFalse(pace.mayLook());
      assertEquals(expected, skipped());
    }
    for (int count = 0; count < 3; ++count) {
      pace.inVain();
      assertEquals(Pace.MOST_SKIPPED, skipped());
    }
  }

  @Test
  void oneThatFindsItsMessageEndsThat() {
    for (int count = 0; count < 10; ++count) {
      pace.inVain();
      skipped();
    }
    pace.seen();
    pace.inVain();
    assertEquals(1, skipped());
  }
}
