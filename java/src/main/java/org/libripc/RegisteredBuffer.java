// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Memory of the context's pool, which peers read without a system call: what long messages are best
 * sent from and received into. From {@link Ripc#lease}.
 *
 * <p>Counted: it starts with one user, whoever leased it, who ends with {@link #close}. Each {@link
 * #retain} adds one, who ends with {@link #release}. The last one gives the memory back to the
 * pool. Tickets, posted windows and attached return buffers count too, so it may be released while
 * a message still travels from it. What is called after the last release throws {@link
 * IllegalStateException}.
 *
 * <p>A {@link ByteBuffer} of it that is used after the release does not crash the JVM: the memory
 * stays mapped as long as any such buffer can be reached. But the bytes may be someone else's by
 * then.
 *
 * <p>One that is never released is found by the garbage collector, given back and reported as a
 * leak.
 */
public final class RegisteredBuffer implements AutoCloseable {
  /** What the garbage collector's net needs to know. Refers to the memory, never to the buffer. */
  private static final class Net implements Runnable {
    private final PoolMemory memory;
    private final Throwable trace = Leaks.trace();
    private final AtomicInteger users = new AtomicInteger(1);

    Net(PoolMemory memory) {
      this.memory = memory;
    }

    @Override
    public void run() {
      if (users.getAndSet(0) > 0) {
        Leaks.report(
            "A RegisteredBuffer of " + memory.capacity + " bytes was never released", trace);
        // A buffer over it may be in use.
        memory.abandon();
        memory.release();
      }
    }
  }

  private final Net net;
  private final Cleaner.Cleanable cleanable;
  private final int size;
  private final AtomicBoolean closed = new AtomicBoolean();

  RegisteredBuffer(PoolMemory memory, int size) {
    this.size = size;
    net = new Net(memory);
    cleanable = Leaks.CLEANER.register(this, net);
  }

  /** Its size in bytes, as it was asked for. */
  public int size() {
    return size;
  }

  /** A new view of all of it, big-endian, with position 0. Contents are undefined at first. */
  public ByteBuffer buffer() {
    return memory().slice(size);
  }

  /** One user more, who is to {@link #release} it. Returns this. */
  public RegisteredBuffer retain() {
    int before;
    do {
      before = net.users.get();
      if (before == 0) throw released();
    } while (!net.users.compareAndSet(before, before + 1));
    return this;
  }

  /**
   * One user less.
   *
   * @return true if it was the last one
   * @throws IllegalStateException if there was none
   */
  public boolean release() {
    int before = oneLess();
    if (before == 0) throw released();
    return before == 1;
  }

  /** How many users there were. */
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
   * Ends the use of whoever leased it: releases it once, however often it is called, if it has a
   * user. Who has called {@link #release} instead does not call this while others use it.
   */
  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) oneLess();
  }

  /** The memory, shown to the application from now on. */
  PoolMemory memory() {
    if (net.users.get() == 0) throw released();
    net.memory.shown = true;
    return net.memory;
  }

  /** The memory with one user more, shown to the application or to peers. */
  PoolMemory retainedMemory() {
    PoolMemory memory = memory();
    if (!memory.tryRetain()) throw released();
    return memory;
  }

  static IllegalStateException released() {
    return new IllegalStateException(
        "This buffer was released: lease another one, or retain() it for each user.");
  }
}
