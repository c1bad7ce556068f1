// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.Set;

/**
 * An epoll instance with an eventfd to wake it. Edge-triggered: each event, and each {@link #wake},
 * ends one {@link #await}. Any thread; nothing may overlap {@link #close}.
 */
public final class Epoll {
  private static final long WAKE = 0;
  private static final long NANOS_PER_MILLISECOND = 1_000_000;
  // The kernel's structure is packed on x86 only.
  private static final boolean PACKED = System.getProperty("os.arch").equals("amd64");
  private static final int EVENT = PACKED ? 12 : 16;
  private static final int DATA = PACKED ? 4 : 8;

  private static final int MOST_EVENTS = 64;
  private static final Spares<NativeBlock> EVENTS =
      new Spares<>(() -> new NativeBlock(MOST_EVENTS * EVENT));

  private final NativeBlock one = new NativeBlock(8);
  private final int epoll;
  private final int wake;

  /**
   * @throws LibC.Failure with the error number
   */
  public Epoll() {
    one.bytes.putLong(0, 1);
    epoll = LibC.checked(LibC.epoll_create1(LibC.EPOLL_CLOEXEC));
    int descriptor = -1;
    try {
      descriptor = LibC.checked(LibC.eventfd(0, LibC.EFD_CLOEXEC | LibC.EFD_NONBLOCK));
      wake = descriptor;
      add(wake, WAKE);
    } catch (LibC.Failure problem) {
      if (descriptor >= 0) LibC.close(descriptor);
      LibC.close(epoll);
      throw problem;
    }
  }

  /** Reports a descriptor by its number, which is not 0, whenever it becomes readable. */
  public void add(int descriptor, long number) {
    control(LibC.EPOLL_CTL_ADD, descriptor, LibC.EPOLLIN | LibC.EPOLLET, number);
  }

  /** Stops reporting a descriptor until {@link #resume}. */
  public void pause(int descriptor, long number) {
    control(LibC.EPOLL_CTL_MOD, descriptor, LibC.EPOLLET, number);
  }

  /** Reports the descriptor again, at once if it is readable. */
  public void resume(int descriptor, long number) {
    control(LibC.EPOLL_CTL_MOD, descriptor, LibC.EPOLLIN | LibC.EPOLLET, number);
  }

  private void control(int operation, int descriptor, int events, long number) {
    NativeBlock event = EVENTS.take();
    try {
      event.bytes.putInt(0, events);
      event.bytes.putLong(DATA, number);
      LibC.checked(LibC.epoll_ctl(epoll, operation, descriptor, event.address));
    } finally {
      EVENTS.giveBack(event);
    }
  }

  public void remove(int descriptor) {
    LibC.checked(LibC.epoll_ctl(epoll, LibC.EPOLL_CTL_DEL, descriptor, one.address));
  }

  /**
   * The numbers of the descriptors that have become readable and were not reported yet; empty when
   * the time is over, after a wake, and soon after the thread is interrupted without one.
   *
   * @param nanos negative: no limit
   */
  public Set<Long> await(long nanos) {
    NativeBlock events = EVENTS.take();
    try {
      return await(nanos, events);
    } finally {
      EVENTS.giveBack(events);
    }
  }

  private Set<Long> await(long nanos, NativeBlock events) {
    long started = System.nanoTime();
    for (; ; ) {
      long passed = System.nanoTime() - started;
      long left = nanos < 0 ? Long.MAX_VALUE : Math.max(0, nanos - passed);
      long part = Math.min(left, InterruptHook.nextLook(passed));
      long milliseconds = (part + NANOS_PER_MILLISECOND - 1) / NANOS_PER_MILLISECOND;
      try {
        int count =
            LibC.checked(
                LibC.epoll_wait(
                    epoll,
                    events.address,
                    MOST_EVENTS,
                    (int) Math.min(milliseconds, Integer.MAX_VALUE)));
        if (count != 0 || part == left || Thread.currentThread().isInterrupted())
          return ready(count, events.bytes);
      } catch (LibC.Failure problem) {
        if (problem.number() != LibC.EINTR) throw problem;
      }
    }
  }

  // The eventfd is never read: each write to it is an event anyway.
  private static Set<Long> ready(int count, ByteBuffer events) {
    if (count == 1) {
      long number = events.getLong(DATA);
      return number == WAKE ? Set.of() : Set.of(number);
    }
    Set<Long> found = new HashSet<>();
    for (int index = 0; index < count; ++index) found.add(events.getLong(index * EVENT + DATA));
    found.remove(WAKE);
    return found;
  }

  public void wake() {
    LibC.write(wake, one.address, 8);
  }

  public void close() {
    LibC.close(wake);
    LibC.close(epoll);
  }
}
