// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicInteger;
import org.libripc.internal.InterruptHook;
import org.libripc.internal.Layout;
import org.libripc.internal.NativeBinding;

/**
 * The waits of a service: receiving, and waiting for room. Thread.interrupt(), close and
 * interrupt() end them through ripc_interrupt(). This function ends one wait, not necessarily the
 * intended one, and two calls at once count as one. So a thread whose wait it ends passes the
 * interrupt on.
 */
final class Waiting {
  // The first look of a wait is this long and needs no interrupt hook, because it ends soon anyway.
  // All of it is a spin: when others want the processor, each spin is this short.
  private static final long FIRST_LOOK = 10_000;

  private final ServiceCore service;
  private final NativeBinding binding;
  private final InterruptHook hook = new InterruptHook(this::wake);
  private final AtomicInteger waiting = new AtomicInteger();
  private volatile boolean interruptWanted;

  Waiting(ServiceCore service) {
    this.service = service;
    binding = service.binding();
  }

  private void wake() {
    if (!service.guard().tryEnter()) return;
    try {
      binding.interrupt(service.handle());
    } finally {
      service.guard().leave();
    }
  }

  void interrupt() {
    interruptWanted = true;
    wake();
  }

  /** One native wait. It has a guard of its own, which keeps the service registered. */
  interface Wait {
    /** Returns the result for the caller if it is not negative, else a negative status. */
    int run(long timeout);
  }

  /**
   * Runs a wait for up to {@code timeout} ns, and repeats it after an interrupt that was not meant
   * for it.
   */
  private int run(Wait wait, long timeout) throws InterruptedException {
    if (Thread.interrupted()) throw new InterruptedException();
    long started = System.nanoTime();
    hook.enter();
    try {
      for (; ; ) {
        if (Thread.interrupted()) throw new InterruptedException();
        long passed = System.nanoTime() - started;
        long left = timeout > 0 ? Math.max(0, timeout - passed) : timeout;
        long look = InterruptHook.nextLook(passed);
        boolean part = left == Layout.FOREVER || left > look;
        int result;
        waiting.incrementAndGet();
        try {
          result = wait.run(part ? look : left);
        } finally {
          waiting.decrementAndGet();
        }
        if (result == -Status.INTERRUPTED.code()) {
          interrupted();
        } else if (!part || result != -Status.TIMEOUT.code()) {
          return result;
        }
      }
    } finally {
      hook.leave();
    }
  }

  // A wait of this thread was ended. The interrupt may have been meant for another thread, or for
  // both.
  private void interrupted() throws InterruptedException {
    boolean others = waiting.get() > 0;
    if (others) wake();
    checkInterrupts();
    if (others) InterruptHook.letOthersWake();
  }

  /** For a call that does not wait but has consumed an interrupt. */
  void passOn() {
    if (interruptWanted || waiting.get() > 0) wake();
  }

  private void checkInterrupts() throws InterruptedException {
    if (service.isClosed()) throw ServiceCore.closed();
    if (Thread.interrupted()) throw new InterruptedException();
    checkWanted();
  }

  private void checkWanted() {
    if (!interruptWanted) return;
    interruptWanted = false;
    throw RipcException.of(Status.INTERRUPTED, "Service.interrupt() was called.");
  }

  /** A native receive into a buffer. Returns the number of messages; 0 if none came in time. */
  int receive(long buffer, int size, int capacity, int flags, long timeout)
      throws InterruptedException {
    if (Thread.interrupted()) throw new InterruptedException();
    if (timeout == 0) return receiveNow(buffer, size, capacity, flags);
    // Most receives end in the first look, which makes no garbage.
    long first = firstLook(timeout);
    if (first > 0) {
      int result = receiveOnce(buffer, size, capacity, flags, first);
      if (isOver(result)) return checked(result);
    }
    return checked(
        run(
            time -> binding.receiveBatch(service.handle(), flags, time, buffer, size, capacity),
            timeout == Layout.FOREVER ? timeout : timeout - first));
  }

  /** Any native wait. Returns 0 if nothing came in time. */
  int await(Wait wait, long timeout) throws InterruptedException {
    if (Thread.interrupted()) throw new InterruptedException();
    long first = timeout == 0 ? 0 : firstLook(timeout);
    if (first > 0 || timeout == 0) {
      int result = wait.run(first);
      if (isOver(result)) return checked(result);
      if (timeout == 0) return 0;
    }
    return checked(run(wait, timeout == Layout.FOREVER ? timeout : timeout - first));
  }

  private long firstLook(long timeout) {
    long first = Math.min(FIRST_LOOK, service.ripc().spinNanos());
    return timeout == Layout.FOREVER || timeout > first ? first : 0;
  }

  private boolean isOver(int result) throws InterruptedException {
    if (result != -Status.INTERRUPTED.code()) return result != -Status.TIMEOUT.code();
    interrupted();
    return false;
  }

  // The receiver is the guard: only one thread enters it, and close() waits until that thread has
  // left.
  private int receiveOnce(long buffer, int size, int capacity, int flags, long timeout) {
    return binding.receiveBatch(service.handle(), flags, timeout, buffer, size, capacity);
  }

  /** Like {@link #receive}, without waiting. */
  int receiveNow(long buffer, int size, int capacity, int flags) {
    int result = receiveOnce(buffer, size, capacity, flags, 0);
    if (result != -Status.INTERRUPTED.code()) return checked(result);
    try {
      checkWanted();
      do {
        result = receiveOnce(buffer, size, capacity, flags, 0);
      } while (result == -Status.INTERRUPTED.code());
      return checked(result);
    } finally {
      passOn();
    }
  }

  private static int checked(int result) {
    if (result >= 0) return result;
    if (result == -Status.EMPTY.code() || result == -Status.TIMEOUT.code()) return 0;
    throw RipcException.ofLastCall(-result);
  }

  boolean waitRoom(Service by, long to, long timeout) throws InterruptedException {
    int result;
    try {
      result = run(time -> waitRoomOnce(to, time), Math.max(0, timeout));
    } finally {
      Reference.reachabilityFence(by);
    }
    if (result == -Status.TIMEOUT.code()) return false;
    checked(result);
    return true;
  }

  private int waitRoomOnce(long to, long timeout) {
    service.enter();
    try {
      return -binding.waitRoom(service.handle(), to, timeout);
    } finally {
      service.guard().leave();
    }
  }
}
