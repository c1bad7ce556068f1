// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** Whether the other side is taken to go on by itself. */
class HabitTest {
  private final Habit habit = new Habit();

  private void exchange() {
    habit.spoke();
    habit.heard(true);
  }

  @Test
  void itIsAtFirst() {
    for (int count = 0; count < Habit.ENOUGH; ++count) {
      exchange();
      assertTrue(habit.mayGoOn());
    }
  }

  @Test
  void itIsNotWhenItHasWaitedOftenEnough() {
    for (int count = 0; count <= Habit.ENOUGH; ++count) exchange();
    assertFalse(habit.mayGoOn());
    exchange();
    assertFalse(habit.mayGoOn());
  }

  @Test
  void itIsAgainWhenItHasGoneOnOnce() {
    for (int count = 0; count <= Habit.ENOUGH; ++count) exchange();
    habit.heard(true);
    assertTrue(habit.mayGoOn());
    exchange();
    assertTrue(habit.mayGoOn());
  }

  @Test
  void messagesThatItDoesNotWaitForSayNothing() {
    for (int count = 0; count < 3 * Habit.ENOUGH; ++count) {
      habit.spoke();
      habit.heard(false);
    }
    assertTrue(habit.mayGoOn());
  }
}
