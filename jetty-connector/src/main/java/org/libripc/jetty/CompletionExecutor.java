// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.util.concurrent.Executor;
import org.eclipse.jetty.util.VirtualThreads;
import org.eclipse.jetty.util.thread.TryExecutor;
import org.libripc.stream.StreamTask;

/**
 * The executor of a server's connections. When the receiving thread completes a write, the
 * connection lets "another" thread parse its next request. Here that is the same thread, after it
 * has returned from the completion, so no other thread has to be woken.
 *
 * <p>Any thread.
 */
final class CompletionExecutor implements TryExecutor, VirtualThreads.Configurable {
  private final Executor threads;

  CompletionExecutor(Executor threads) {
    this.threads = threads;
  }

  @Override
  public void execute(Runnable task) {
    if (!StreamTask.defer(task)) threads.execute(task);
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
