// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.spi.AbstractSelectableChannel;
import java.nio.channels.spi.AbstractSelector;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;

/**
 * Lets {@link Thread#interrupt} end a native wait. When a thread is interrupted, the JVM wakes the
 * selector that the thread is blocked in. So this class is a selector, of which only {@link
 * #wakeup} does anything.
 */
public final class InterruptHook extends AbstractSelector {
  private static final long SECOND_LOOK = 10_000_000;
  private static final long PASS_ON = 1_000_000;

  private final Runnable wake;

  /**
   * @param wake ends the wait; runs in the thread that interrupts, and may run when the wait is
   *     over already
   */
  public InterruptHook(Runnable wake) {
    super(null);
    this.wake = wake;
  }

  /** Call before a wait. If the thread is interrupted already, {@code wake} runs at once. */
  public void enter() {
    begin();
  }

  /** Call after the wait. */
  public void leave() {
    end();
  }

  /**
   * How long a wait that has lasted {@code passed} ns goes on before it checks the thread's flag
   * once more. Thread.interrupt() first looks up the hook to call, and then sets the flag: a thread
   * that begins to wait in between sees neither.
   */
  public static long nextLook(long passed) {
    return Math.max(SECOND_LOOK, passed);
  }

  /**
   * Call it after a wait that was ended for another thread, and after that one was woken. Otherwise
   * this thread might be the next one to be woken again.
   */
  public static void letOthersWake() {
    LockSupport.parkNanos(PASS_ON);
  }

  @Override
  public Selector wakeup() {
    wake.run();
    return this;
  }

  @Override
  protected void implCloseSelector() {}

  @Override
  protected SelectionKey register(
      AbstractSelectableChannel channel, int operations, Object attachment) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Set<SelectionKey> keys() {
    return Set.of();
  }

  @Override
  public Set<SelectionKey> selectedKeys() {
    return Set.of();
  }

  @Override
  public int selectNow() {
    throw new UnsupportedOperationException();
  }

  @Override
  public int select(long timeout) {
    throw new UnsupportedOperationException();
  }

  @Override
  public int select() {
    throw new UnsupportedOperationException();
  }
}
