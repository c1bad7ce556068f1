// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * Memory that the reply to a request may be written into: {@link Outgoing#attach}. From the send on
 * its memory is the library's, until the reply was received, the request was cancelled ({@link
 * Service#cancelRequest}) or the service was closed. It can then be attached again.
 */
public final class ReturnBuffer {
  private final ByteBuffer buffer;
  private final RegisteredBuffer registered;
  // Guarded by this.
  private boolean attached;
  private PoolMemory held;

  /** Of memory of the application: a direct buffer, from its position to its limit. */
  public ReturnBuffer(ByteBuffer direct) {
    if (!direct.isDirect() || direct.isReadOnly()) {
      throw new IllegalArgumentException(
          "a return buffer needs a direct buffer that can be written: lease() one");
    }
    buffer = direct.slice();
    registered = null;
  }

  /**
   * Of pool memory. The buffer stays the application's to release, and is kept while it is
   * attached.
   */
  public ReturnBuffer(RegisteredBuffer registered) {
    this.registered = Objects.requireNonNull(registered);
    buffer = registered.buffer();
  }

  /** A new view of all of it. */
  public ByteBuffer buffer() {
    return buffer.duplicate();
  }

  /** Its size in bytes. */
  public int size() {
    return buffer.capacity();
  }

  /** Whether a request that has it is under way. */
  public synchronized boolean isAttached() {
    return attached;
  }

  synchronized void attached() {
    if (attached)
      throw new IllegalStateException("This return buffer belongs to a request that is under way.");
    if (registered != null) {
      held = registered.memory();
      held.retain();
    }
    attached = true;
  }

  synchronized void returned() {
    attached = false;
    if (held != null) held.release();
    held = null;
  }
}
