// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Who runs what a connection gives to its executor. */
class CompletionExecutorTest {
  private final List<Runnable> given = new ArrayList<>();
  private final CompletionExecutor executor = new CompletionExecutor(given::add);

  private static void nothing() {}

  @Test
  void otherThreadsDoWhatIsGivenToIt() {
    Runnable task = CompletionExecutorTest::nothing;
    executor.execute(task);
    assertEquals(List.of(task), given);
  }

  @Test
  void whatACompletionGivesToItIsLeftToTheThreadThatCompletes() {
    Runnable first = () -> nothing();
    Runnable second = () -> nothing();
    List<Runnable> following = new ArrayList<>();
    CompletionExecutor.complete(
        () -> {
          executor.execute(first);
          executor.execute(second);
        },
        following);
    assertEquals(List.of(first, second), following);
    assertEquals(List.of(), given);
  }

  @Test
  void nothingIsLostWithACompletionThatFails() {
    Runnable task = CompletionExecutorTest::nothing;
    List<Runnable> following = new ArrayList<>();
    Runnable failing =
        () -> {
          executor.execute(task);
          throw new IllegalStateException("as a test wants it");
        };
    assertThrows(
        IllegalStateException.class, () -> CompletionExecutor.complete(failing, following));
    assertEquals(List.of(task), following);
    executor.execute(task);
    assertEquals(List.of(task), given);
  }
}
