// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * Keeps a native handle alive while it is used: {@link #tryEnter} before each native call, {@link
 * #leave} after it. Once it is closed nobody can enter, and the last thread that leaves runs the
 * action that destroys the handle, exactly once.
 *
 * <p>Any thread. One locked instruction to enter, one to leave.
 */
public final class Guard {
  private static final int CLOSED = 1 << 31;
  private static final int DESTROYED = 1 << 30;
  private static final int COUNT = DESTROYED - 1;
  private final Runnable destroy;

  private final AtomicInteger state = new AtomicInteger();

  public Guard(Runnable destroy) {
    this.destroy = destroy;
  }

  /** False if it is closed. */
  public boolean tryEnter() {
    if (state.getAndIncrement() >= 0) return true;
    leave();
    return false;
  }

  public void leave() {
    if (state.decrementAndGet() == CLOSED) destroyOnce();
  }

  /** Lets nobody enter from now on. False if it was closed already. */
  public boolean close() {
    int before = state.getAndUpdate(now -> now | CLOSED);
    if (before < 0) return false;
    if (before == 0) destroyOnce();
    return true;
  }

  public boolean isClosed() {
    return state.get() < 0;
  }

  /** The number of threads inside. */
  public int inside() {
    return state.get() & COUNT;
  }

  private void destroyOnce() {
    // A thread that was turned away brings the count to zero once more.
    if (state.compareAndSet(CLOSED, CLOSED | DESTROYED)) destroy.run();
  }
}
