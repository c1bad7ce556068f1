// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** The threads of a service without an executor: daemons, as many as are needed, and one timer. */
class CachedThreads implements StreamExecutor, AutoCloseable {
  private final ExecutorService threads;
  private final ScheduledThreadPoolExecutor timer =
      new ScheduledThreadPoolExecutor(1, CachedThreads::newThread);

  CachedThreads() {
    this(CachedThreads::newThread);
  }

  CachedThreads(ThreadFactory factory) {
    threads = Executors.newCachedThreadPool(factory);
    timer.setRemoveOnCancelPolicy(true);
    timer.setRejectedExecutionHandler(new ThreadPoolExecutor.DiscardPolicy());
  }

  /** A daemon, which the caller has to start. */
  static Thread newThread(Runnable task) {
    Thread thread = new Thread(task, "ripc-stream");
    thread.setDaemon(true);
    return thread;
  }

  @Override
  public void execute(Runnable task) {
    try {
      threads.execute(task);
    } catch (OutOfMemoryError none) { // the system has no thread left
      throw new RejectedExecutionException(none);
    }
  }

  @Override
  public boolean tryExecute(Runnable task) {
    try {
      execute(task);
      return true;
    } catch (RejectedExecutionException full) {
      return false;
    }
  }

  @Override
  public void executeBlocking(Runnable task) {
    execute(task);
  }

  @Override
  public boolean isLowOnThreads() {
    return false;
  }

  @Override
  public Runnable schedule(Runnable task, long delay, TimeUnit unit) {
    var scheduled = timer.schedule(task, delay, unit);
    return () -> scheduled.cancel(false);
  }

  /** Ends the timer. The threads end when they are idle: a stream may still run its reader. */
  @Override
  public void close() {
    timer.shutdownNow();
  }
}
