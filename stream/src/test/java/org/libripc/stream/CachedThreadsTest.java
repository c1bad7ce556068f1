// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.concurrent.RejectedExecutionException;
import org.junit.jupiter.api.Test;

/** The threads of a service without an executor. */
class CachedThreadsTest {
  @Test
  void aTaskForWhichThereIsNoThreadIsRejected() {
    CachedThreads threads =
        new CachedThreads(
            task -> {
              throw new OutOfMemoryError("unable to create native thread");
            });
    assertFalse(threads.tryExecute(() -> {}));
    assertThrows(RejectedExecutionException.class, () -> threads.execute(() -> {}));
    assertThrows(RejectedExecutionException.class, () -> threads.executeBlocking(() -> {}));
    threads.close();
  }
}
