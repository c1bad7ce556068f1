// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Which thread runs the tasks that a connection gives to its executor. */
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
}
