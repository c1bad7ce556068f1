// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import java.util.concurrent.locks.LockSupport;
import org.libripc.internal.LibraryFuture;
import org.libripc.internal.RpcEndpoint;

/**
 * A call under way. It completes with its result, whatever the outcome is, in the thread that runs
 * the endpoint; what depends on it without an executor of its own runs there, and must not wait for
 * other calls. The {@link CallResult} is to be closed.
 *
 * <p>Nobody else can complete it: {@link #complete} and the like return false or throw. So {@link
 * #orTimeout} and {@link #completeOnTimeout} do nothing: the time of a call is {@link
 * CallOptions#timeout}, and {@link #get(long, java.util.concurrent.TimeUnit)} waits for less.
 */
public final class RpcCall extends LibraryFuture<CallResult> implements RpcEndpoint.Borrower {
  private final RpcEndpoint endpoint;
  private long name; // before anybody else has this
  private Runnable giveBack; // return buffers
  private volatile Thread waiting;

  RpcCall(RpcEndpoint endpoint) {
    this.endpoint = endpoint;
  }

  RpcCall begun(long newName) {
    name = newName;
    return this;
  }

  /** Who is woken by the end. */
  void wakes(Thread thread) {
    waiting = thread;
  }

  void ended(CallResult result) {
    if (!end(result)) result.close();
    Thread thread = waiting;
    if (thread != null) LockSupport.unpark(thread);
  }

  /** Not for applications. */
  @Override
  public void lends(Runnable newGiveBack) {
    giveBack = newGiveBack;
  }

  /**
   * Ends the call: the server is told, and the return buffers are the application's again. A call
   * that was cancelled may have run.
   *
   * @param mayInterruptIfRunning has no effect
   * @return false if it has ended otherwise
   */
  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    if (isDone() || !endpoint.cancel(name)) return isCancelled();
    if (giveBack != null) giveBack.run();
    return super.cancel(mayInterruptIfRunning);
  }
}
