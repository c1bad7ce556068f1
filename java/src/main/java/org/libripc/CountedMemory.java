// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Memory that the library knows, counted by who uses it: a {@link RegisteredBuffer}, tickets,
 * windows, return buffers. Any thread.
 */
abstract class CountedMemory {
  final long address;
  final int capacity;
  private final AtomicInteger users = new AtomicInteger();

  CountedMemory(long address, int capacity) {
    this.address = address;
    this.capacity = capacity;
  }

  /** The first {@code size} bytes. */
  abstract ByteBuffer slice(int size);

  /** Called when a buffer over it is given to the application. */
  abstract void show();

  /** Called when it has no counted users, but someone may still use a buffer over it. */
  abstract void abandon();

  /** Called by the last user. */
  abstract void unused();

  /** Whether the application must leave the memory in place, though it may have released it. */
  abstract boolean isKept();

  /** Sets the first user of memory that nobody else can have. */
  void lend() {
    users.set(1);
  }

  /** Adds a user; false if there are none: the memory belongs, or will belong, to someone else. */
  boolean tryRetain() {
    int before;
    do {
      before = users.get();
      if (before == 0) return false;
    } while (!users.compareAndSet(before, before + 1));
    return true;
  }

  boolean isUsed() {
    return users.get() != 0;
  }

  void release() {
    if (users.decrementAndGet() == 0) unused();
  }

  /** Releases each CountedMemory of a list. */
  static void releaseAll(List<Object> held) {
    for (Object each : held) {
      if (each instanceof CountedMemory) ((CountedMemory) each).release();
    }
  }
}
