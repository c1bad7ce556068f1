// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;

/** Which threads run what is received: tasks that may block, and others. */
class ReceivingThreadsTest extends ReceivingThreadsFixture {
  /** A task that says that it does not block. */
  private static StreamTask nonBlocking(Runnable task) {
    return new StreamTask() {
      @Override
      public Blocking blocking() {
        return Blocking.NEVER;
      }

      @Override
      public void runWithoutBlocking() {
        run();
      }

      @Override
      public void run() {
        task.run();
      }
    };
  }

  @Test
  void blockingTasksHoldUpNothing() {
    CountDownLatch all = new CountDownLatch(16);
    CountDownLatch through = new CountDownLatch(16);
    for (int count = 0; count < 16; ++count) {
      tasks.offer(
          () -> {
            all.countDown();
            await(all);
            through.countDown();
          });
    }
    await(through);
  }

  @Test
  void tasksThatComeWhileOthersBlockRun() {
    CountDownLatch release = new CountDownLatch(1);
    for (int count = 0; count < 8; ++count) {
      CountDownLatch running = new CountDownLatch(1);
      tasks.offer(
          () -> {
            running.countDown();
            await(release);
          });
      await(running);
    }
    release.countDown();
  }

  @Test
  void noThreadWakesAnotherForTasksThatComeOneByOne() {
    for (int count = 0; count < 1000; ++count) {
      CountDownLatch done = new CountDownLatch(1);
      tasks.offer(done::countDown);
      await(done);
    }
    assertEquals(0, tasks.wakes.get());
  }

  @Test
  void oneThreadRunsTasksThatDoNotBlock() {
    Queue<Thread> runners = new ConcurrentLinkedQueue<>();
    CountDownLatch all = new CountDownLatch(100);
    CountDownLatch offered = new CountDownLatch(1);
    Runnable task =
        () -> {
          await(offered);
          runners.add(Thread.currentThread());
          all.countDown();
        };
    for (int count = 0; count < 100; ++count) {
      tasks.offered.add(nonBlocking(task));
    }
    tasks.events.release();
    offered.countDown();
    await(all);
    assertEquals(1, runners.stream().distinct().count());
    assertEquals(0, tasks.wakes.get());
  }

  @Test
  void aTaskThatBlocksAgainstItsWordIsTakenOverFrom() {
    CountDownLatch second = new CountDownLatch(1);
    CountDownLatch first = new CountDownLatch(1);
    Runnable blocking =
        () -> {
          await(second);
          first.countDown();
        };
    tasks.offered.add(nonBlocking(blocking));
    tasks.offered.add(second::countDown); // without an event of its own
    tasks.events.release();
    await(first);
  }

  @Test
  void tasksAfterACompletionMayBlock() {
    CountDownLatch second = new CountDownLatch(1);
    CountDownLatch followed = new CountDownLatch(2);
    Runnable following =
        () -> {
          await(second);
          followed.countDown();
        };
    Runnable another =
        () -> {
          await(second);
          followed.countDown();
        };
    tasks.offered.add(
        new Completion(
            () -> {
              StreamTask.defer(following);
              StreamTask.defer(another);
            },
            null));
    tasks.offered.add(second::countDown);
    tasks.events.release();
    await(followed);
  }

  @Test
  void aThreadWhoseWaitFailsDoesNotCountAsWaiting() throws Exception {
    assertTrue(eventually(() -> threads.toString().contains("waiting=1")));
    tasks.failure = new InternalError("as a test wants it");
    tasks.events.release();
    assertTrue(eventually(() -> threads.toString().contains("waiting=0")), threads::toString);
  }

  @Test
  void aTaskThatFailsEndsNoThread() {
    Runnable failing =
        () -> {
          throw new IllegalStateException("as a test wants it");
        };
    for (int count = 0; count < 10; ++count) {
      tasks.offer(nonBlocking(failing));
      tasks.offer(failing);
    }
    CountDownLatch done = new CountDownLatch(1);
    tasks.offer(done::countDown);
    await(done);
  }
}
