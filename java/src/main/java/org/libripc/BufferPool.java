// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import org.libripc.internal.NativeBlock;

/**
 * The leases that Java holds in a context: those in use, and those kept for the next lease of the
 * same size.
 */
final class BufferPool {
  private static final int SMALLEST = 256;
  private static final int STEP = 1 << 20; // above it sizes are multiples of it, below powers of 2
  private static final int ATTEMPTS = 20;

  private final RipcCore ripc;
  private final long keep;
  private final ConcurrentSkipListMap<Long, PoolMemory> byAddress = new ConcurrentSkipListMap<>();
  private final Map<Integer, ArrayDeque<PoolMemory>> free = new HashMap<>();
  private long freeBytes;
  private boolean closed;

  BufferPool(RipcCore ripc, long keep) {
    this.ripc = ripc;
    this.keep = keep;
  }

  RipcCore ripc() {
    return ripc;
  }

  /** Memory of at least this size, with one user. */
  PoolMemory lease(int size) {
    int capacity = sizeClass(size);
    synchronized (free) {
      ArrayDeque<PoolMemory> sameSize = free.get(capacity);
      PoolMemory memory = sameSize == null ? null : sameSize.pollLast();
      if (memory != null) {
        freeBytes -= capacity;
        memory.lend();
        return memory;
      }
    }
    PoolMemory memory = leaseNative(capacity);
    memory.lend();
    byAddress.put(memory.address, memory);
    return memory;
  }

  private PoolMemory leaseNative(int capacity) {
    NativeBlock data = new NativeBlock(8);
    for (int attempt = 0; ; ++attempt) {
      ripc.enter();
      int status = ripc.binding().bufferLease(ripc.handle(), capacity, data.address);
      if (status == 0) return new PoolMemory(this, data.bytes.getLong(0), capacity);
      RipcException failure = RipcException.ofLastCall(status);
      ripc.guard().leave();
      if (failure.status() != Status.NO_MEMORY || attempt == ATTEMPTS) throw failure;
      // Released memory is freed only when no buffer over it can be reached, which the JVM has to
      // find out.
      dropFree();
      if (attempt % 5 == 0) System.gc();
      pause();
    }
  }

  private static void pause() {
    try {
      Thread.sleep(5);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** Called by the last user. */
  void takeBack(PoolMemory memory) {
    synchronized (free) {
      if (!closed && !memory.isAbandoned() && freeBytes + memory.capacity <= keep) {
        free.computeIfAbsent(memory.capacity, size -> new ArrayDeque<>()).addLast(memory);
        freeBytes += memory.capacity;
        return;
      }
    }
    drop(memory);
  }

  /**
   * The memory that holds an address, retained for the caller; null if none does.
   *
   * @throws IllegalStateException if it was released
   */
  PoolMemory findAndRetain(long address) {
    PoolMemory memory = find(address);
    if (memory != null && !memory.tryRetain()) throw RegisteredBuffer.released();
    return memory;
  }

  /** Whether memory that has users contains {@code size} bytes from an address on. */
  boolean holds(long address, long size) {
    PoolMemory memory = find(address);
    return memory != null && address + size <= memory.address + memory.capacity && memory.isUsed();
  }

  /** The bytes of all memory that has users. */
  long bytesInUse() {
    long bytes = 0;
    for (PoolMemory each : byAddress.values()) if (each.isUsed()) bytes += each.capacity;
    return bytes;
  }

  /** The memory that holds an address, used or not; null if none does. */
  private PoolMemory find(long address) {
    Map.Entry<Long, PoolMemory> before = byAddress.floorEntry(address);
    if (before == null) return null;
    PoolMemory memory = before.getValue();
    return address < memory.address + memory.capacity ? memory : null;
  }

  void close() {
    synchronized (free) {
      closed = true;
    }
    dropFree();
  }

  private void dropFree() {
    Map<Integer, ArrayDeque<PoolMemory>> dropped;
    synchronized (free) {
      dropped = new HashMap<>(free);
      free.clear();
      freeBytes = 0;
    }
    dropped.values().forEach(sameSize -> sameSize.forEach(this::drop));
  }

  private void drop(PoolMemory memory) {
    byAddress.remove(memory.address);
    memory.drop();
  }

  private static int sizeClass(int size) {
    if (size <= SMALLEST) return SMALLEST;
    if (size <= STEP) return Integer.highestOneBit(size - 1) << 1;
    long rounded = (size + (long) STEP - 1) / STEP * STEP;
    return (int) Math.min(rounded, Integer.MAX_VALUE);
  }
}
