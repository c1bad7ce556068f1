// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/** Threads and timers of a {@link StreamService}. Any thread may call it. */
public interface StreamExecutor extends Executor {
  /** Runs a task in a thread that is free or can be started at once; false if there is none. */
  boolean tryExecute(Runnable task);

  /** Runs a task that may block. */
  void executeBlocking(Runnable task);

  /** Whether so few threads are free that only one should wait for messages. */
  boolean isLowOnThreads();

  /**
   * Runs a task after a delay, in any thread.
   *
   * @return an action that cancels the task
   */
  Runnable schedule(Runnable task, long delay, TimeUnit unit);
}
