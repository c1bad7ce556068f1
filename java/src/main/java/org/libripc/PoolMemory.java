// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * One native lease with its one root buffer. Counted by who uses it: a {@link RegisteredBuffer},
 * tickets, windows, return buffers. At 0 it goes back to the Java pool for the next lease. The
 * native lease ends when the Java pool has dropped it and no buffer over it can be reached any
 * more: memory that Java can see is never unmapped.
 */
final class PoolMemory {
  final long address;
  final int capacity;
  private final BufferPool pool;
  private final AtomicInteger users = new AtomicInteger();
  private ByteBuffer root;
  private Cleaner.Cleanable nativeLease;
  private volatile boolean abandoned;

  /** The context is entered for it already. */
  PoolMemory(BufferPool pool, long address, int capacity) {
    this.pool = pool;
    this.address = address;
    this.capacity = capacity;
    Ripc ripc = pool.ripc();
    root = ripc.binding().view(address, capacity);
    nativeLease = Leaks.CLEANER.register(root, endOfLease(ripc, address));
  }

  // Must not refer to the object, which refers to the root.
  private static Runnable endOfLease(Ripc ripc, long address) {
    return () -> {
      ripc.binding().bufferRelease(ripc.handle(), address);
      ripc.guard().leave();
    };
  }

  /** The first {@code size} bytes. */
  ByteBuffer slice(int size) {
    return root.slice(0, size);
  }

  /** The root buffer, for what does not outlive a lease. */
  ByteBuffer root() {
    return root;
  }

  /** Its first user, of memory that nobody else can have. */
  void lend() {
    users.set(1);
  }

  /** One user more; false if there is none any more: it is, or will be, someone else's. */
  boolean tryRetain() {
    int before;
    do {
      before = users.get();
      if (before == 0) return false;
    } while (!users.compareAndSet(before, before + 1));
    return true;
  }

  void release() {
    if (users.decrementAndGet() == 0) pool.takeBack(this);
  }

  /** Releases each PoolMemory of a list. */
  static void releaseAll(List<Object> held) {
    for (Object each : held) {
      if (each instanceof PoolMemory) ((PoolMemory) each).release();
    }
  }

  /**
   * Someone may still use a buffer over it although nobody is counted any more: it is not leased
   * again.
   */
  void abandon() {
    abandoned = true;
  }

  boolean isAbandoned() {
    return abandoned;
  }

  /**
   * Ends the native lease, at once if nobody was ever given a buffer.
   *
   * @param shown whether a buffer over it was given to the application
   */
  void drop(boolean shown) {
    root = null;
    if (!shown) nativeLease.clean();
    nativeLease = null;
  }

  /** Whether a buffer over it was given to the application, ever. */
  boolean shown;
}
