// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.eclipse.jetty.util.VirtualThreads;
import org.eclipse.jetty.util.thread.Invocable;
import org.eclipse.jetty.util.thread.Scheduler;
import org.eclipse.jetty.util.thread.ThreadPool;
import org.eclipse.jetty.util.thread.TryExecutor;
import org.libripc.stream.StreamExecutor;
import org.libripc.stream.StreamTask;

/** Gives streams the threads and timers of Jetty. Any thread. */
final class JettyExecutor implements StreamExecutor {
  /** A task of Jetty. */
  interface Task extends StreamTask, Invocable.Task {
    @Override
    default Blocking blocking() {
      return switch (getInvocationType()) {
        case NON_BLOCKING -> Blocking.NEVER;
        case EITHER -> Blocking.AVOIDABLE;
        case BLOCKING -> Blocking.POSSIBLE;
      };
    }

    @Override
    default void runWithoutBlocking() {
      Invocable.invokeNonBlocking(this);
    }
  }

  private final Executor executor;
  private final TryExecutor tryExecutor;
  private final Executor taskExecutor;
  private final Scheduler scheduler;

  JettyExecutor(Executor executor, Scheduler scheduler) {
    this.executor = executor;
    this.scheduler = scheduler;
    tryExecutor = TryExecutor.asTryExecutor(executor);
    Executor virtual = VirtualThreads.getVirtualThreadsExecutor(executor);
    taskExecutor = virtual == null ? executor : virtual;
  }

  @Override
  public void execute(Runnable task) {
    executor.execute(task);
  }

  @Override
  public boolean tryExecute(Runnable task) {
    return tryExecutor.tryExecute(task);
  }

  @Override
  public void executeBlocking(Runnable task) {
    taskExecutor.execute(task);
  }

  @Override
  public boolean isLowOnThreads() {
    return executor instanceof ThreadPool pool && pool.isLowOnThreads();
  }

  @Override
  public Runnable schedule(Runnable task, long delay, TimeUnit unit) {
    return scheduler.schedule(task, delay, unit)::cancel;
  }
}
