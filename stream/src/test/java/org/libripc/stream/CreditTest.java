// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** When the other side is told how far the reader is. */
class CreditTest {
  private static final int WINDOW = 1000;

  private final Credit credit = new Credit(WINDOW);

  private static Inbound.Progress reader(long consumed, long waiting, boolean awaited) {
    return new Inbound.Progress(consumed, waiting, awaited);
  }

  @Test
  void isWhenHalfOfTheWindowWasReadSinceItWasAnnounced() {
    credit.open(WINDOW);
    assertFalse(credit.isOwed(reader(WINDOW / 2 - 1, 0, false)));
    assertTrue(credit.isOwed(reader(WINDOW / 2, 0, false)));
    credit.announced(WINDOW / 2);
    assertFalse(credit.isOwed(reader(WINDOW - 1, 0, false)));
    assertTrue(credit.isOwed(reader(WINDOW, 0, false)));
  }

  @Test
  void isWhenHalfOfTheWritersWindowWasReadIfThatIsSmaller() {
    credit.open(WINDOW / 4);
    assertFalse(credit.isOwed(reader(WINDOW / 8 - 1, 0, false)));
    assertTrue(credit.isOwed(reader(WINDOW / 8, 0, false)));
  }

  @Test
  void isNotWhileTheWriterMayNotGoOnAllTheSame() {
    credit.open(WINDOW);
    assertFalse(credit.isOwed(reader(WINDOW / 2, WINDOW, false)));
  }

  @Test
  void isNotBeforeTheEndOfAMessageThatTheWriterWaitsFor() {
    credit.open(WINDOW);
    assertFalse(credit.isOwed(reader(WINDOW / 2, WINDOW / 2, true)));
    assertFalse(credit.isOwed(reader(WINDOW, 0, true)));
  }

  @Test
  void letsTheWriterGoOneMessageBeyondTheWindow() {
    credit.open(WINDOW);
    credit.sent(WINDOW - Frame.COST - 1);
    assertTrue(credit.allows());
    credit.sent(5 * WINDOW);
    assertFalse(credit.allows());
    assertTrue(credit.acknowledge(5 * WINDOW + Frame.COST));
    assertTrue(credit.allows());
    assertFalse(credit.acknowledge(7 * WINDOW), "it cannot have read more than was sent");
  }
}
