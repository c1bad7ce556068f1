// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

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
  private static final VarHandle STATE;

  static {
    try {
      STATE = MethodHandles.lookup().findVarHandle(Guard.class, "state", int.class);
    } catch (ReflectiveOperationException impossible) {
      throw new ExceptionInInitializerError(impossible);
    }
  }

  private final Runnable destroy;

  @SuppressWarnings("unused") // through STATE
  private volatile int state;

  public Guard(Runnable destroy) {
    this.destroy = destroy;
  }

  /** False if it is closed. */
  public boolean tryEnter() {
    if ((int) STATE.getAndAdd(this, 1) >= 0) return true;
    leave();
    return false;
  }

  public void leave() {
    if ((int) STATE.getAndAdd(this, -1) - 1 == CLOSED) destroyOnce();
  }

  /** Lets nobody enter from now on. False if it was closed already. */
  public boolean close() {
    int before = (int) STATE.getAndBitwiseOr(this, CLOSED);
    if (before < 0) return false;
    if (before == 0) destroyOnce();
    return true;
  }

  public boolean isClosed() {
    return state < 0;
  }

  /** The number of threads inside. */
  public int inside() {
    return state & COUNT;
  }

  private void destroyOnce() {
    // A thread that was turned away brings the count to zero once more.
    if (STATE.compareAndSet(this, CLOSED, CLOSED | DESTROYED)) destroy.run();
  }
}
