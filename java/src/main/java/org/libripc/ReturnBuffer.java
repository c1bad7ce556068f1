// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import org.libripc.internal.AutoLock;

/**
 * Memory that the reply to a request may be written into: {@link Outgoing#attach}. From the send
 * on, its memory is the library's, until the reply is received, the request is cancelled ({@link
 * Service#cancelRequest}) or the service is closed. It can then be attached again.
 */
@SuppressWarnings("try") // locks
public final class ReturnBuffer {
  private final WritableMemory memory;
  private final AutoLock lock = new AutoLock();
  // Guarded by the lock.
  private boolean attached;

  /**
   * A buffer over memory of the application: a direct buffer, from its position to its limit. One
   * over a mapped file costs one more copy, in leased memory; if the file has become shorter by
   * then, the item is missing with {@link Status#CANCELLED}.
   */
  public ReturnBuffer(ByteBuffer direct) {
    memory = new WritableMemory(direct, "a return buffer");
  }

  /**
   * A buffer over registered memory. The application still has to release the registered buffer,
   * which is kept while this is attached.
   */
  public ReturnBuffer(RegisteredBuffer registered) {
    memory = new WritableMemory(registered, "a return buffer");
  }

  /** A new view of all of it. */
  public ByteBuffer buffer() {
    return memory.buffer();
  }

  /** Its size in bytes. */
  public int size() {
    return memory.size();
  }

  /** Whether a request that has it is under way. */
  public boolean isAttached() {
    try (AutoLock held = lock.held()) {
      return attached;
    }
  }

  void attached(RipcCore ripc) {
    try (AutoLock held = lock.held()) {
      if (attached)
        throw new IllegalStateException(
            "This return buffer belongs to a request that is under way.");
      memory.hold(ripc);
      attached = true;
    }
  }

  /** While it is attached: the address where native code writes. */
  long landing() {
    try (AutoLock held = lock.held()) {
      return memory.landing();
    }
  }

  /**
   * Called before the buffer is returned: native code has written {@code size} bytes. False if they
   * are lost.
   */
  boolean landed(long size) {
    try (AutoLock held = lock.held()) {
      return memory.landed(size);
    }
  }

  void returned() {
    try (AutoLock held = lock.held()) {
      attached = false;
      memory.letGo();
    }
  }
}
