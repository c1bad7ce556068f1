// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import com.sun.jna.LastErrorException;
import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.Set;

/**
 * An epoll instance with an eventfd to wake it. {@link #await} is for one thread at a time, the
 * others for any; none may overlap {@link #close}.
 */
public final class Epoll {
  private static final long WAKE = 0;
  private static final long NANOS_PER_MILLISECOND = 1_000_000;
  // The kernel's structure is packed on x86 only.
  private static final boolean PACKED = System.getProperty("os.arch").equals("amd64");
  private static final int EVENT = PACKED ? 12 : 16;
  private static final int DATA = PACKED ? 4 : 8;

  private final int most;
  private final NativeBlock events;
  private final NativeBlock counter = new NativeBlock(16);
  private final int epoll;
  private final int wake;

  /**
   * @param most events that one wait reports
   * @throws LastErrorException with the error number
   */
  public Epoll(int most) {
    this.most = most;
    events = new NativeBlock(most * EVENT);
    counter.bytes.putLong(0, 1);
    epoll = LibC.epoll_create1(LibC.EPOLL_CLOEXEC);
    int descriptor = -1;
    try {
      descriptor = LibC.eventfd(0, LibC.EFD_CLOEXEC | LibC.EFD_NONBLOCK);
      wake = descriptor;
      add(wake, WAKE);
    } catch (LastErrorException problem) {
      if (descriptor >= 0) LibC.close(descriptor);
      LibC.close(epoll);
      throw problem;
    }
  }

  /** Reports a descriptor by its number, which is not 0, as long as it is readable. */
  public void add(int descriptor, long number) {
    NativeBlock event = new NativeBlock(EVENT);
    event.bytes.putInt(0, LibC.EPOLLIN);
    event.bytes.putLong(DATA, number);
    LibC.epoll_ctl(epoll, LibC.EPOLL_CTL_ADD, descriptor, event.address);
    NativeBlock.keep(event);
  }

  public void remove(int descriptor) {
    LibC.epoll_ctl(epoll, LibC.EPOLL_CTL_DEL, descriptor, events.address);
  }

  /**
   * The numbers of the readable ones; empty when the time is over or it was woken.
   *
   * @param nanos negative: no limit
   */
  public Set<Long> await(long nanos) {
    long started = System.nanoTime();
    for (; ; ) {
      long left = Math.max(0, nanos - (System.nanoTime() - started));
      long milliseconds = (left + NANOS_PER_MILLISECOND - 1) / NANOS_PER_MILLISECOND;
      try {
        return ready(
            LibC.epoll_wait(
                epoll,
                events.address,
                most,
                nanos < 0 ? -1 : (int) Math.min(milliseconds, Integer.MAX_VALUE)));
      } catch (LastErrorException problem) {
        if (problem.getErrorCode() != LibC.EINTR) throw problem;
      }
    }
  }

  private Set<Long> ready(int count) {
    Set<Long> found = new HashSet<>();
    ByteBuffer bytes = events.bytes;
    for (int index = 0; index < count; ++index) {
      long number = bytes.getLong(index * EVENT + DATA);
      if (number == WAKE) {
        LibC.read(wake, counter.address + 8, 8);
      } else {
        found.add(number);
      }
    }
    return found;
  }

  public void wake() {
    LibC.write(wake, counter.address, 8);
  }

  public void close() {
    LibC.close(wake);
    LibC.close(epoll);
  }
}
