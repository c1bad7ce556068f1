// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Few threads read a disk, and a slow disk does not hold up the others. */
@Timeout(60)
class DirectoryReadersTest {
  private final DirectoryReaders readers = new DirectoryReaders(2, 3);
  private final CountDownLatch gate = new CountDownLatch(1);
  private final Semaphore begun = new Semaphore(0);
  private final Semaphore done = new Semaphore(0);

  private void slow() {
    begun.release();
    try {
      gate.await();
      done.release();
    } catch (InterruptedException closing) {
      Thread.currentThread().interrupt();
    }
  }

  @AfterEach
  void end() throws InterruptedException {
    readers.close();
  }

  @Test
  void tasksBeyondTheLimitsAreRejected() throws Exception {
    for (int task = 0; task < 5; ++task) readers.execute(0, this::slow);
    assertThrows(RejectedExecutionException.class, () -> readers.execute(0, this::slow));
    begun.acquire(2);
    assertEquals(0, begun.availablePermits());
    gate.countDown();
    assertTrue(done.tryAcquire(5, 20, TimeUnit.SECONDS));
  }

  @Test
  void anotherDirectoryGoesOn() throws Exception {
    for (int task = 0; task < 5; ++task) readers.execute(0, this::slow);
    readers.execute(1, done::release);
    readers.execute(DirectoryReaders.UNKNOWN, done::release);
    assertTrue(done.tryAcquire(2, 20, TimeUnit.SECONDS));
  }

  @Test
  void closedReadersRunNothingMore() throws Exception {
    for (int task = 0; task < 5; ++task) readers.execute(0, this::slow);
    readers.close(); // interrupts those that read
    assertThrows(RejectedExecutionException.class, () -> readers.execute(0, this::slow));
    assertEquals(0, done.availablePermits(), "nothing that waited has run");
  }
}
