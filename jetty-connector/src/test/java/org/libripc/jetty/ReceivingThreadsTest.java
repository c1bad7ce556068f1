// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.eclipse.jetty.util.thread.Invocable;
import org.eclipse.jetty.util.thread.QueuedThreadPool;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Who runs what is received: tasks that may block, and others. */
class ReceivingThreadsTest {
  private static final int LIMIT = 20; // seconds, for any step

  /** Tasks that a test offers; each is an event. */
  private static final class Tasks implements ReceivingThreads.Source {
    private final Queue<Runnable> offered = new ConcurrentLinkedQueue<>();
    private final Semaphore events = new Semaphore(0);
    private final AtomicInteger wakes = new AtomicInteger();
    private final AtomicInteger inside = new AtomicInteger();

    void offer(Runnable task) {
      offered.add(task);
      events.release();
    }

    @Override
    public Runnable next(boolean patient) {
      assertEquals(1, inside.incrementAndGet(), "one thread at a time");
      Runnable task = offered.poll();
      inside.decrementAndGet();
      return task;
    }

    @Override
    public void await() {
      events.acquireUninterruptibly();
    }

    @Override
    public void wake() {
      wakes.incrementAndGet();
      events.release();
    }

    @Override
    public void refused(Runnable task) {
      throw new AssertionError("a thread was to be had");
    }
  }

  private final QueuedThreadPool pool = new QueuedThreadPool(64);
  private final Tasks tasks = new Tasks();
  private ReceivingThreads threads;

  @BeforeEach
  void start() throws Exception {
    pool.start();
    threads = new ReceivingThreads(tasks, pool);
    threads.start();
  }

  @AfterEach
  void end() throws Exception {
    threads.end();
    assertTrue(threads.awaitEnd(TimeUnit.SECONDS.toMillis(LIMIT)));
    pool.stop();
  }

  private static void await(CountDownLatch latch) {
    try {
      assertTrue(latch.await(LIMIT, TimeUnit.SECONDS));
    } catch (InterruptedException stopped) {
      throw new AssertionError(stopped);
    }
  }

  @Test
  void whatBlocksHoldsUpNothing() {
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
  void whatComesWhileATaskBlocksIsRun() {
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
  void whatDoesNotBlockIsRunWithoutOthers() {
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
      tasks.offered.add(Invocable.from(Invocable.InvocationType.NON_BLOCKING, task));
    }
    tasks.events.release();
    offered.countDown();
    await(all);
    assertEquals(1, runners.stream().distinct().count());
    assertEquals(0, tasks.wakes.get());
  }

  @Test
  void aTaskThatFailsEndsNoThread() {
    Runnable failing =
        () -> {
          throw new IllegalStateException("as a test wants it");
        };
    for (int count = 0; count < 10; ++count) {
      tasks.offer(Invocable.from(Invocable.InvocationType.NON_BLOCKING, failing));
      tasks.offer(failing);
    }
    CountDownLatch done = new CountDownLatch(1);
    tasks.offer(done::countDown);
    await(done);
  }
}
