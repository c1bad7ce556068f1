// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/** Which thread runs the tasks that a completion leaves to its thread. */
class CompletionTest {
  private final Runnable first = () -> assertTrue(true);
  private final Runnable second = () -> assertTrue(true);

  @Test
  void otherThreadsDoWhatNoCompletionDefers() {
    assertFalse(StreamTask.defer(first));
  }

  @Test
  void deferredTasksAreLeftToTheCompletingThread() {
    Completion completion =
        new Completion(
            () -> {
              assertTrue(StreamTask.defer(second));
              assertTrue(StreamTask.defer(first));
            },
            first);
    completion.run();
    assertEquals(List.of(first, second), completion.following());
    assertFalse(StreamTask.defer(first));
  }

  @Test
  void nothingIsLostWithACompletionThatFails() {
    Completion completion =
        new Completion(
            () -> {
              StreamTask.defer(first);
              throw new IllegalStateException("as a test wants it");
            },
            null);
    assertThrows(IllegalStateException.class, completion::run);
    assertEquals(List.of(first), completion.following());
    assertFalse(StreamTask.defer(first));
  }
}
