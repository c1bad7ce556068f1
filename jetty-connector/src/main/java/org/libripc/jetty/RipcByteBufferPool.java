// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.eclipse.jetty.io.ArrayByteBufferPool;
import org.eclipse.jetty.io.ByteBufferPool;
import org.eclipse.jetty.io.RetainableByteBuffer;
import org.libripc.RegisteredBuffer;
import org.libripc.Ripc;

/**
 * Jetty's buffer pool over registered memory: what is written into its direct buffers is sent
 * without a copy. Give it to the {@code Server}, or to an {@code HttpClient}. Everything there then
 * takes its buffers from this pool: handlers, servlets, the cache of static content.
 *
 * <p>Direct buffers are leases of the context ({@link Ripc#lease}). When Jetty releases them, they
 * go back to the context, which leases them again only when no message travels from them any more.
 * Heap buffers come from a pool of Jetty's own.
 *
 * <p>Any thread. The pool lives as long as its context, which it does not close.
 */
public class RipcByteBufferPool implements ByteBufferPool {
  private static final int DEFAULT_SIZE = 4096;

  private final Ripc ripc;
  private final ByteBufferPool heap = new ArrayByteBufferPool();

  /** Makes a pool over the one of a context, whose options limit it. */
  public RipcByteBufferPool(Ripc ripc) {
    this.ripc = ripc;
  }

  /** The context. */
  public Ripc ripc() {
    return ripc;
  }

  /**
   * Acquires an empty buffer of at least this size.
   *
   * @param size in bytes; -1 for Jetty's usual size
   * @param direct whether it is in registered memory; otherwise it is on the heap
   */
  @Override
  public RetainableByteBuffer.Mutable acquire(int size, boolean direct) {
    if (!direct) return heap.acquire(size, false);
    RegisteredBuffer lease = ripc.lease(size < 0 ? DEFAULT_SIZE : size);
    ByteBuffer buffer = lease.buffer().limit(0);
    return RetainableByteBuffer.wrap(buffer, lease::release);
  }

  /** Drops the heap buffers that are kept. The context keeps the registered ones. */
  @Override
  public void clear() {
    heap.clear();
  }

  @Override
  public String toString() {
    return "RipcByteBufferPool " + ripc.poolStatistics();
  }

  /**
   * A pool that knows which of its buffers were not released, and where they were acquired, as
   * Jetty's {@link ArrayByteBufferPool.Tracking} does. For tests: each buffer costs a stack trace.
   */
  public static final class Tracking extends RipcByteBufferPool {
    /**
     * A buffer that was not released.
     *
     * @param size the requested size, in bytes
     * @param direct whether it is registered memory
     * @param instant when it was acquired
     * @param stack where, and by which thread
     */
    public record Leak(int size, boolean direct, Instant instant, Throwable stack) {
      // Each record stands for one buffer, and equals only itself.
      @Override
      public boolean equals(Object other) {
        return this == other;
      }

      @Override
      public int hashCode() {
        return System.identityHashCode(this);
      }

      private String dump() {
        StringWriter text = new StringWriter();
        text.append(String.format("%d bytes, direct=%s, acquired at %s%n", size, direct, instant));
        stack.printStackTrace(new PrintWriter(text));
        return text.toString();
      }
    }

    private final Set<Leak> leaks = ConcurrentHashMap.newKeySet();

    /** Makes a tracking pool over the one of a context. */
    public Tracking(Ripc ripc) {
      super(ripc);
    }

    @Override
    public RetainableByteBuffer.Mutable acquire(int size, boolean direct) {
      RetainableByteBuffer.Mutable buffer = super.acquire(size, direct);
      Throwable stack = new Throwable("Acquired by " + Thread.currentThread().getName());
      Leak leak = new Leak(size, direct, Instant.now(), stack);
      leaks.add(leak);
      return RetainableByteBuffer.wrap(
          buffer.getByteBuffer(),
          () -> {
            leaks.remove(leak);
            buffer.release();
          });
    }

    /** The buffers that are not released now. */
    public Set<Leak> getLeaks() {
      return Set.copyOf(leaks);
    }

    /** Lists all of them, with the stacks of the threads that acquired them. */
    public String dumpLeaks() {
      return leaks.stream().map(Leak::dump).collect(Collectors.joining(System.lineSeparator()));
    }
  }
}
