// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.libripc.internal.Leaks;

/**
 * Memory that a context knows. It is either memory of the context's pool ({@link Ripc#lease}),
 * which peers read without a system call: the best memory to send long messages from and to receive
 * them into. Or it is the application's own ({@link Ripc#registerMemory}).
 *
 * <p>It counts its users. It starts with one, who leased or registered it, and who ends with {@link
 * #close}. Each {@link #retain} adds a user, who ends with {@link #release}. The last user gives
 * the memory back to the pool, or ends its registration. Tickets, posted windows and attached
 * return buffers keep it too ({@link #isInUse}), so it may be released while a message still
 * travels from it. Every call after the last release throws {@link IllegalStateException}.
 *
 * <p>A {@link ByteBuffer} of it that is used after the release does not crash the JVM. The memory
 * stays mapped as long as any such buffer can be reached. But the bytes of pool memory may be
 * someone else's by then.
 *
 * <p>If a buffer is never released, the garbage collector finds it; it is then given back and
 * reported as a leak.
 */
public final class RegisteredBuffer implements AutoCloseable {
  /** What the garbage collector's net needs to know. Refers to the memory, never to the buffer. */
  private static final class Net implements Runnable {
    private final CountedMemory memory;
    private final Throwable trace = Leaks.trace();
    private final AtomicInteger users = new AtomicInteger(1);

    Net(CountedMemory memory) {
      this.memory = memory;
    }

    @Override
    public void run() {
      if (users.getAndSet(0) > 0) {
        Leaks.report("RegisteredBuffer", " of " + memory.capacity + " bytes", trace);
        // A ByteBuffer over the memory may be in use.
        memory.abandon();
        memory.release();
      }
    }
  }

  private final Net net;
  private final Cleaner.Cleanable cleanable;
  private final int size;
  private final AtomicBoolean closed = new AtomicBoolean();

  RegisteredBuffer(CountedMemory memory, int size) {
    this.size = size;
    net = new Net(memory);
    cleanable = Leaks.CLEANER.register(this, net);
  }

  /** Its size in bytes, as requested or registered. */
  public int size() {
    return size;
  }

  /**
   * A new view of all of it, big-endian, with position 0; read only if the registered buffer is.
   * The contents of pool memory are undefined at first.
   */
  public ByteBuffer buffer() {
    return memory().slice(size);
  }

  /** Adds a user, who has to {@link #release} it. Returns this. */
  public RegisteredBuffer retain() {
    int before;
    do {
      before = net.users.get();
      if (before == 0) throw released();
    } while (!net.users.compareAndSet(before, before + 1));
    return this;
  }

  /**
   * Removes a user.
   *
   * @return true if it was the last one
   * @throws IllegalStateException if there was none
   */
  public boolean release() {
    int before = oneLess();
    if (before == 0) throw released();
    return before == 1;
  }

  /** Removes a user. Returns how many users there were. */
  private int oneLess() {
    int before;
    do {
      before = net.users.get();
      if (before == 0) return 0;
    } while (!net.users.compareAndSet(before, before - 1));
    if (before == 1) {
      net.memory.release();
      cleanable.clean();
    }
    return before;
  }

  /** How many users there are; 0 after the last release. */
  public int users() {
    return net.users.get();
  }

  /**
   * Whether it has users, or is memory of the application that a ticket, a posted window or an
   * attached return buffer holds. Until this is false, such memory must stay mapped. That may last
   * until all other buffers registered from the same address are released, too.
   */
  public boolean isInUse() {
    return net.users.get() != 0 || net.memory.isKept();
  }

  /**
   * Ends the use by whoever leased it: releases it once, however often it is called, if it has a
   * user. A caller that has used {@link #release} instead must not call this while others use it.
   */
  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) oneLess();
  }

  /** The memory, shown to the application from now on. */
  CountedMemory memory() {
    if (net.users.get() == 0) throw released();
    net.memory.show();
    return net.memory;
  }

  /** The memory, with a user added, shown to the application or to peers. */
  CountedMemory retainedMemory() {
    CountedMemory memory = memory();
    if (!memory.tryRetain()) throw released();
    return memory;
  }

  static IllegalStateException released() {
    return new IllegalStateException(
        "This buffer was released: lease or register another one, or retain() it for each user.");
  }
}
