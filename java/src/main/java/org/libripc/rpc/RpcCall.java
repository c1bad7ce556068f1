// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import java.util.concurrent.locks.LockSupport;
import org.libripc.internal.LibraryFuture;
import org.libripc.internal.RpcEndpoint;

/**
 * A call under way. It completes with its result, whatever the outcome is, in the thread that runs
 * the endpoint. Without such a thread it does not complete, and {@link #get} waits for ever: see
 * {@link Rpc#serve} and {@link Rpc#callWait}. Dependent actions without an executor of their own
 * run there, and must not wait for other calls. Close the {@link CallResult}.
 *
 * <p>Only the library can complete it: {@link #complete} and similar methods return false or throw.
 * So {@link #orTimeout} and {@link #completeOnTimeout} do nothing. Set the time of a call with
 * {@link CallOptions#timeout}; {@link #get(long, java.util.concurrent.TimeUnit)} can wait for less.
 */
public final class RpcCall extends LibraryFuture<CallResult> implements RpcEndpoint.Borrower {
  private final RpcEndpoint endpoint;
  private long name; // set before another thread sees this
  private Runnable giveBack; // return buffers
  private volatile Thread waiting;

  RpcCall(RpcEndpoint endpoint) {
    this.endpoint = endpoint;
  }

  RpcCall begun(long newName) {
    name = newName;
    return this;
  }

  /** Sets the thread that the end wakes. */
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
   * Ends the call: tells the server, and gives the return buffers back to the application. A call
   * that was cancelled may have run.
   *
   * @param mayInterruptIfRunning has no effect
   * @return false if it has already ended in another way
   */
  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    if (isDone() || !endpoint.cancel(name)) return isCancelled();
    if (giveBack != null) giveBack.run();
    return super.cancel(mayInterruptIfRunning);
  }
}
