// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** When the acknowledgement of an awaited message waits for the next message. */
class DelayedAckTest {
  private final DelayedAck ack = new DelayedAck();

  private void exchange() {
    ack.sent();
    ack.received(true);
  }

  @Test
  void itIsNotDelayedAtFirst() {
    for (int count = 0; count < DelayedAck.ENOUGH; ++count) {
      exchange();
      assertFalse(ack.isDelayed());
    }
  }

  @Test
  void itIsDelayedAfterEnoughTurns() {
    for (int count = 0; count <= DelayedAck.ENOUGH; ++count) exchange();
    assertTrue(ack.isDelayed());
    exchange();
    assertTrue(ack.isDelayed());
  }

  @Test
  void itIsNotDelayedAfterTheOtherSideWentOn() {
    for (int count = 0; count <= DelayedAck.ENOUGH; ++count) exchange();
    ack.received(true);
    assertFalse(ack.isDelayed());
    exchange();
    assertFalse(ack.isDelayed());
  }

  @Test
  void messagesThatAreNotAwaitedChangeNothing() {
    for (int count = 0; count < 3 * DelayedAck.ENOUGH; ++count) {
      ack.sent();
      ack.received(false);
    }
    assertFalse(ack.isDelayed());
  }
}
