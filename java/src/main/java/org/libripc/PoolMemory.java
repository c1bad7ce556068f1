// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import org.libripc.internal.Leaks;

/**
 * One native lease with its one root buffer. When it has no users, it goes back to the Java pool
 * for the next lease. The native lease ends when the Java pool has dropped it and no buffer over it
 * can be reached any more. So memory that Java can see is never unmapped.
 */
final class PoolMemory extends CountedMemory {
  private final BufferPool pool;
  private volatile ByteBuffer root; // null: dropped
  private Cleaner.Cleanable nativeLease;
  private volatile boolean abandoned;
  private volatile boolean shown; // whether a buffer over it was ever given to the application

  /** The caller has entered the context for it already. */
  PoolMemory(BufferPool pool, long address, int capacity) {
    super(address, capacity);
    this.pool = pool;
    RipcCore ripc = pool.ripc();
    root = ripc.binding().view(address, capacity);
    nativeLease = Leaks.CLEANER.register(root, endOfLease(ripc, address));
  }

  // The returned action must not refer to the object, which refers to the root.
  private static Runnable endOfLease(RipcCore ripc, long address) {
    return () -> {
      ripc.binding().bufferRelease(ripc.handle(), address);
      ripc.guard().leave();
    };
  }

  @Override
  ByteBuffer slice(int size) {
    ByteBuffer known = root;
    if (known == null) throw RegisteredBuffer.released();
    return known.slice(0, size);
  }

  /** The root buffer, for uses that do not outlive a lease. */
  ByteBuffer root() {
    return root;
  }

  @Override
  void show() {
    shown = true;
  }

  @Override
  void unused() {
    pool.takeBack(this);
  }

  /** Pool memory never belongs to the application. */
  @Override
  boolean isKept() {
    return false;
  }

  /** Such memory is not leased again. */
  @Override
  void abandon() {
    abandoned = true;
  }

  boolean isAbandoned() {
    return abandoned;
  }

  /** Ends the native lease, at once if nobody was ever given a buffer. */
  void drop() {
    root = null;
    if (!shown) nativeLease.clean();
    nativeLease = null;
  }
}
