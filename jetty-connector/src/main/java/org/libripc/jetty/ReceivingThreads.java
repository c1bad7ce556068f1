// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.eclipse.jetty.util.VirtualThreads;
import org.eclipse.jetty.util.thread.Invocable;
import org.eclipse.jetty.util.thread.ThreadPool;
import org.eclipse.jetty.util.thread.TryExecutor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The threads that receive for a service, of an executor. One at a time takes what has come, and
 * runs the task that follows from it. Before it runs one that may block, it makes sure that another
 * thread goes on. Mostly that one waits for the next event already, so the kernel wakes it if there
 * is one, and no thread has to wake another for a message.
 *
 * <p>Any thread.
 */
final class ReceivingThreads {
  private static final Logger LOG = LoggerFactory.getLogger(ReceivingThreads.class);

  /** Where the tasks come from. */
  interface Source {
    /**
     * The next task; null if there is nothing now: then an event ends an {@link #await} as soon as
     * there is. One thread at a time. Throws nothing.
     *
     * @param patient whether it may look for a while, as the caller has nothing else to do
     */
    Runnable next(boolean patient);

    /** Waits for an event. Each ends the wait of one thread. May return without one. */
    void await();

    /** Ends one wait that is running, or the next one. */
    void wake();

    /** A task that no thread could be found for: somebody waits for what it does. */
    void refused(Runnable task);
  }

  // One that takes the next event, and one for the event after it.
  private static final int MOST_WAITING = 2;

  private final Source source;
  private final Executor executor;
  private final Executor taskExecutor;
  private final TryExecutor tryExecutor;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private volatile boolean running;
  // All below: guarded by the lock.
  private Runnable ahead; // taken, for whoever comes next
  private boolean empty; // the source had nothing, and no event has come since
  private int waiting;
  private boolean woken; // one of those that wait, and it has not come yet
  private int starting;

  ReceivingThreads(Source source, Executor executor) {
    this.source = source;
    this.executor = executor;
    tryExecutor = TryExecutor.asTryExecutor(executor);
    Executor virtual = VirtualThreads.getVirtualThreadsExecutor(executor);
    taskExecutor = virtual == null ? executor : virtual;
  }

  /** Begins with one thread. */
  void start() {
    lock.lock();
    try {
      running = true;
      empty = false;
      ++starting;
    } finally {
      lock.unlock();
    }
    execute(executor, this::runStarted);
  }

  /** Whether {@link #end} was not called yet. */
  boolean isRunning() {
    return running;
  }

  /** No thread takes anything any more. Does not wait for any. */
  void end() {
    running = false;
    source.wake();
  }

  /** Waits until, after {@link #end}, no thread takes or waits. False if that lasts too long. */
  boolean awaitEnd(long millis) throws InterruptedException {
    long left = TimeUnit.MILLISECONDS.toNanos(millis);
    if (!lock.tryLock(left, TimeUnit.NANOSECONDS)) return false;
    try {
      while (waiting > 0 && left > 0) left = changed.awaitNanos(left);
      return waiting == 0;
    } finally {
      lock.unlock();
    }
  }

  private void runStarted() {
    lock.lock();
    --starting;
    lock.unlock();
    for (Runnable task = take(); task != null; task = take()) run(task);
  }

  // A thread that receives does not end with the task of one connection.
  private static void run(Runnable task) {
    try {
      task.run();
    } catch (Exception | AssertionError | LinkageError problem) {
      LOG.warn("A task of a connection has failed", problem);
    }
  }

  /** What the calling thread is to run; null: it is needed no longer. */
  private Runnable take() {
    for (; ; ) {
      Runnable elsewhere = null;
      lock.lock();
      try {
        if (!running) return null;
        Runnable task = next(true);
        if (task != null) {
          Runnable here = securely(task);
          if (here != null) return here;
          elsewhere = task;
        } else {
          if (isEnough()) return null;
          ++waiting;
        }
      } finally {
        lock.unlock();
      }
      if (elsewhere != null) {
        execute(taskExecutor, elsewhere);
      } else {
        waitForEvent();
      }
    }
  }

  private Runnable next(boolean patient) {
    Runnable task = ahead;
    ahead = null;
    if (task == null && !empty) {
      task = source.next(patient);
      empty = task == null;
    }
    return task;
  }

  // Whether enough wait for events. Where threads are few, they have other things to do.
  private boolean isEnough() {
    boolean few = executor instanceof ThreadPool pool && pool.isLowOnThreads();
    return waiting - (woken ? 1 : 0) + starting >= (few ? 1 : MOST_WAITING);
  }

  /** How to run a task in this thread; null if that would keep it from taking what comes. */
  private Runnable securely(Runnable task) {
    return switch (Invocable.getInvocationType(task)) {
      case NON_BLOCKING -> task;
      case BLOCKING -> othersGoOn() ? task : null;
      case EITHER -> othersGoOn() ? task : () -> Invocable.invokeNonBlocking(task);
    };
  }

  /** Whether another thread takes what is there or comes. */
  private boolean othersGoOn() {
    ahead = next(false);
    if (ahead == null && waiting > 0 || woken || starting > 0) return true;
    if (waiting > 0) {
      woken = true;
      source.wake();
      return true;
    }
    if (!tryExecutor.tryExecute(this::runStarted)) return false;
    ++starting;
    return true;
  }

  private void waitForEvent() {
    source.await();
    lock.lock();
    try {
      --waiting;
      woken = false;
      empty = false;
      if (running) return;
      changed.signalAll();
      if (waiting > 0) source.wake();
    } finally {
      lock.unlock();
    }
  }

  private void execute(Executor threads, Runnable task) {
    try {
      threads.execute(task);
    } catch (RejectedExecutionException full) {
      source.refused(task);
    }
  }
}
