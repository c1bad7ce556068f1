// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.util.List;
import java.util.concurrent.Executor;
import org.eclipse.jetty.util.VirtualThreads;
import org.eclipse.jetty.util.thread.TryExecutor;

/**
 * What a server's connections take for their executor. A connection whose write has been completed
 * by the thread that receives has its next request parsed by "another" thread: that is the same one
 * here, when it has come back from the completion, so that none has to be woken.
 *
 * <p>Any thread.
 */
final class CompletionExecutor implements TryExecutor, VirtualThreads.Configurable {
  // What the calling thread is to run afterwards; null while it completes nothing.
  private static final ThreadLocal<List<Runnable>> FOLLOWING = new ThreadLocal<>();

  private final Executor threads;

  CompletionExecutor(Executor threads) {
    this.threads = threads;
  }

  /**
   * Runs a completion that does not block.
   *
   * @param following gets what it gives to such an executor, also if it fails
   */
  static void complete(Runnable completion, List<Runnable> following) {
    FOLLOWING.set(following);
    try {
      completion.run();
    } finally {
      FOLLOWING.remove();
    }
  }

  /** Whether the calling thread completes something, and runs the task afterwards. */
  static boolean runsAfterwards(Runnable task) {
    List<Runnable> following = FOLLOWING.get();
    if (following == null) return false;
    if (!following.contains(task)) following.add(task);
    return true;
  }

  @Override
  public void execute(Runnable task) {
    if (!runsAfterwards(task)) threads.execute(task);
  }

  @Override
  public boolean tryExecute(Runnable task) {
    return TryExecutor.asTryExecutor(threads).tryExecute(task);
  }

  @Override
  public Executor getVirtualThreadsExecutor() {
    return VirtualThreads.getVirtualThreadsExecutor(threads);
  }

  @Override
  public void setVirtualThreadsExecutor(Executor executor) {
    throw new UnsupportedOperationException("set it at the thread pool");
  }

  @Override
  public String toString() {
    return threads.toString();
  }
}
