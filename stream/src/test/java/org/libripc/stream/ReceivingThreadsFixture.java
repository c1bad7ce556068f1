// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** Threads that receive what a test offers. */
abstract class ReceivingThreadsFixture {
  static final int LIMIT = 20; // seconds, for any step

  /** Tasks that a test offers; each is an event. */
  static final class Tasks implements TaskSource {
    final Queue<Runnable> offered = new ConcurrentLinkedQueue<>();
    final Semaphore events = new Semaphore(0);
    private final Semaphore guestEvents = new Semaphore(0);
    private boolean paused; // guarded by this
    volatile boolean needed; // by those that wait
    volatile Error failure; // of the next wait that ends
    final AtomicInteger wakes = new AtomicInteger();
    private boolean timeStandsStill; // guarded by this
    private Runnable held; // a look that is due when time goes on; guarded by this
    private final AtomicInteger inside = new AtomicInteger();

    void offer(Runnable task) {
      offered.add(task);
      synchronized (this) {
        (paused ? guestEvents : events).release();
      }
    }

    boolean hasGuest() {
      return guestEvents.hasQueuedThreads();
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
      Error thrown = failure;
      failure = null;
      if (thrown != null) throw thrown;
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

    @Override
    public synchronized boolean pause() {
      assertFalse(paused);
      paused = !needed;
      return paused;
    }

    @Override
    public synchronized void resume() {
      assertTrue(paused);
      paused = false;
      guestEvents.drainPermits();
      if (!offered.isEmpty()) events.release();
    }

    @Override
    public Runnable receive(long nanos) throws InterruptedException {
      Runnable task = next(false);
      if (task != null || !guestEvents.tryAcquire(nanos, TimeUnit.NANOSECONDS)) return task;
      return next(false);
    }

    @Override
    public void endReceive() {
      guestEvents.release();
    }

    @Override
    public void later(Runnable look) {
      synchronized (this) {
        if (timeStandsStill) held = look;
        if (timeStandsStill) return;
      }
      CompletableFuture.delayedExecutor(1, TimeUnit.MILLISECONDS).execute(look);
    }

    /** Until time goes on, no thread is away for too long, however late the system runs it. */
    synchronized void stopTime() {
      timeStandsStill = true;
    }

    void letTimePass() {
      Runnable look;
      synchronized (this) {
        timeStandsStill = false;
        look = held;
        held = null;
      }
      if (look != null) later(look);
    }
  }

  /** Threads that a test can use up. */
  static final class Pool extends CachedThreads {
    volatile boolean full;

    @Override
    public boolean tryExecute(Runnable task) {
      return !full && super.tryExecute(task);
    }
  }

  final Pool pool = new Pool();
  final Tasks tasks = new Tasks();
  ReceivingThreads threads;
  Guests guests;

  @BeforeEach
  void start() {
    threads = new ReceivingThreads(tasks, pool);
    guests = new Guests(threads, tasks);
    threads.start();
  }

  @AfterEach
  void end() throws Exception {
    threads.end();
    assertTrue(threads.awaitEnd(TimeUnit.SECONDS.toMillis(LIMIT)));
    pool.close();
  }

  static void await(CountDownLatch latch) {
    try {
      assertTrue(latch.await(LIMIT, TimeUnit.SECONDS));
    } catch (InterruptedException stopped) {
      throw new AssertionError(stopped);
    }
  }

  /** Asks until the condition holds, or the time is over. */
  static boolean eventually(BooleanSupplier condition) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT);
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > end) return false;
      Thread.sleep(1);
    }
    return true;
  }
}
