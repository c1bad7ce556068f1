// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.nio.ByteBuffer;
import org.eclipse.jetty.io.ArrayByteBufferPool;
import org.eclipse.jetty.io.ByteBufferPool;
import org.eclipse.jetty.io.RetainableByteBuffer;
import org.libripc.RegisteredBuffer;
import org.libripc.Ripc;

/**
 * Jetty's buffer pool over registered memory: what is written into its direct buffers is sent
 * without a copy. Give it to the {@code Server}, or to an {@code HttpClient}, of which everything
 * then takes its buffers here: handlers, servlets, the cache of static content.
 *
 * <p>Direct buffers are leases of the context ({@link Ripc#lease}). Released by Jetty they go back
 * to the context, which leases them again only when no message travels from them any more. Heap
 * buffers come from a pool of Jetty's own.
 *
 * <p>Any thread. It lives as long as its context, which it does not close.
 */
public final class RipcByteBufferPool implements ByteBufferPool {
  private static final int DEFAULT_SIZE = 4096;

  private final Ripc ripc;
  private final ByteBufferPool heap = new ArrayByteBufferPool();

  /** Over the pool of a context, whose options limit it. */
  public RipcByteBufferPool(Ripc ripc) {
    this.ripc = ripc;
  }

  /** The context. */
  public Ripc ripc() {
    return ripc;
  }

  /**
   * A buffer of at least this size, empty.
   *
   * @param size in bytes; -1: of Jetty's usual size
   * @param direct registered memory; else the heap
   */
  @Override
  public RetainableByteBuffer.Mutable acquire(int size, boolean direct) {
    if (!direct) return heap.acquire(size, false);
    RegisteredBuffer lease = ripc.lease(size < 0 ? DEFAULT_SIZE : size);
    ByteBuffer buffer = lease.buffer().limit(0);
    return RetainableByteBuffer.wrap(buffer, lease::release);
  }

  /** Drops the heap buffers that are kept. Registered ones are the context's to keep. */
  @Override
  public void clear() {
    heap.clear();
  }

  @Override
  public String toString() {
    return "RipcByteBufferPool " + ripc.poolStatistics();
  }
}
