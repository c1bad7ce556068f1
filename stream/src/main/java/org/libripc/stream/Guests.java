// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

/**
 * Threads of the application that wait for the result of a task of {@link ReceivingThreads}. If
 * only one waits, it receives meanwhile, as the guest: so the peer wakes it directly, and not
 * another thread that then wakes it.
 *
 * <p>Any thread.
 */
final class Guests {
  // After this many looks without an await() no guest is expected.
  private static final int GONE = 1000;

  // After several threads were in await() at once, this many calls make no guest.
  private static final int CROWD = 64;

  /** A thread that receives in place of the threads of the pool. */
  static final class Guest {
    final Thread thread = Thread.currentThread();
    volatile CompletableFuture<?> answer; // what it waits for; null while it sends the request
    // The guest keeps its place but does not receive: it sends, or runs a task. Reset with the lock
    // held.
    volatile boolean isAway;
    volatile long turns; // counts its absences

    Guest(CompletableFuture<?> answer) {
      this.answer = answer;
    }
  }

  private final ReceivingThreads threads;
  private final TaskSource source;
  private final AtomicInteger awaiting = new AtomicInteger(); // threads in await()
  private volatile int crowd; // calls of await() that still make no guest
  // How often a thread has looked for a task since an await() began.
  private volatile int sinceAwait = GONE;

  Guests(ReceivingThreads threads, TaskSource source) {
    this.threads = threads;
    this.source = source;
  }

  /**
   * Whether a guest will want to receive soon. Called by the thread in {@link TaskSource#next},
   * once in each call.
   */
  boolean isExpected() {
    int looks = sinceAwait;
    if (looks >= GONE) return false;
    sinceAwait = looks + 1;
    return !isCrowded();
  }

  /**
   * Waits for a future. Meanwhile the calling thread receives, and runs the tasks that follow, if
   * it is the only one in such a wait and another thread can take over.
   */
  <T> T await(CompletableFuture<T> answer, long nanos)
      throws InterruptedException, ExecutionException, TimeoutException {
    awaiting.incrementAndGet();
    try {
      return await(answer, nanos, answer.isDone() ? null : enter(answer));
    } finally {
      awaiting.decrementAndGet();
    }
  }

  /**
   * The same for the answer to a request that this sends. No other thread receives while it sends,
   * unless that takes long.
   */
  <T> T await(Supplier<CompletableFuture<T>> sending, long nanos)
      throws InterruptedException, ExecutionException, TimeoutException {
    awaiting.incrementAndGet();
    Guest own = enter(null);
    try {
      if (own != null) threads.goAway(own);
      CompletableFuture<T> answer = Objects.requireNonNull(sending.get());
      Guest staying = own != null && threads.comeBack(own, answer) ? own : null;
      own = null;
      return await(answer, nanos, staying);
    } finally {
      if (own != null) threads.leave(own, null);
      awaiting.decrementAndGet();
    }
  }

  private <T> T await(CompletableFuture<T> answer, long nanos, Guest first)
      throws InterruptedException, ExecutionException, TimeoutException {
    long began = System.nanoTime();
    long left = nanos;
    Guest own = first;
    if (own != null) answer.whenComplete((value, problem) -> completed(answer));
    while (own != null) {
      boolean stays = false;
      Runnable task = null;
      try {
        // A thread that completes the answer after this check ends the wait.
        if (canReceive(answer, left)) {
          task = source.receive(left);
          if (task != null && threads.isUsual(task)) {
            Runnable part = task;
            task = null;
            stays = runInside(own, answer, part);
          }
          left = nanos - (System.nanoTime() - began);
          stays &= canReceive(answer, left);
        }
      } finally {
        if (!stays) task = threads.leave(own, task);
      }
      if (stays) continue;
      if (task != null) threads.run(task);
      left = nanos - (System.nanoTime() - began);
      own = canReceive(answer, left) ? enter(answer) : null;
    }
    return answer.get(Math.max(0, left), TimeUnit.NANOSECONDS);
  }

  /** The calling thread becomes the guest; null if it cannot. */
  private Guest enter(CompletableFuture<?> answer) {
    sinceAwait = 0;
    if (isCrowded()) {
      crowd = awaiting.get() > 1 ? CROWD : crowd - 1;
      return null;
    }
    Guest own = new Guest(answer);
    return threads.enter(own) ? own : null;
  }

  // With several waiting threads, a guest would mostly receive for the others, and the threads of
  // the pool are quicker at that.
  private boolean isCrowded() {
    return awaiting.get() > 1 || crowd > 0;
  }

  // The next part of an answer mostly comes soon, and other threads would be woken for it
  // meanwhile.
  private boolean runInside(Guest own, CompletableFuture<?> answer, Runnable task) {
    threads.goAway(own);
    threads.run(task);
    return threads.comeBack(own, answer);
  }

  private boolean canReceive(CompletableFuture<?> answer, long left) {
    return !answer.isDone() && left > 0 && threads.isRunning();
  }

  private void completed(CompletableFuture<?> answer) {
    Guest present = threads.guest();
    if (present == null || present.answer != answer) return;
    if (present.thread != Thread.currentThread()) source.endReceive();
  }
}
