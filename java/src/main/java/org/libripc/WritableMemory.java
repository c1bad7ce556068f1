// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.Objects;
import org.libripc.internal.Binding;
import org.libripc.internal.LibC;

/**
 * Memory that libripc may write: the application's, or a registered buffer's, which is kept while
 * the library holds it. Data for a mapped file goes into leased memory first ({@link FileMemory}).
 * The owner of the object guards it.
 */
final class WritableMemory {
  private final ByteBuffer buffer;
  private final RegisteredBuffer registered;
  private CountedMemory held;
  private PoolMemory landing; // null: data goes into the buffer itself

  /** {@code what}: its use, for error messages. */
  WritableMemory(ByteBuffer direct, String what) {
    if (!direct.isDirect() || direct.isReadOnly()) {
      throw new IllegalArgumentException(
          what + " needs a direct buffer that can be written: lease() one");
    }
    buffer = direct.slice();
    registered = null;
  }

  WritableMemory(RegisteredBuffer registered, String what) {
    this.registered = Objects.requireNonNull(registered);
    buffer = registered.buffer();
    if (buffer.isReadOnly()) {
      throw new IllegalArgumentException(what + " needs memory that can be written");
    }
  }

  /** A new view of all of it. */
  ByteBuffer buffer() {
    return buffer.duplicate();
  }

  int size() {
    return buffer.capacity();
  }

  /** From here on the memory is the library's. */
  void hold(RipcCore ripc) {
    FileMemory.checkOpen(buffer);
    if (registered != null) held = registered.retainedMemory();
    try {
      if (FileMemory.isMapped(buffer)) landing = ripc.pool().lease(size());
    } catch (RuntimeException problem) {
      letGo();
      throw problem;
    }
  }

  /** While it is held: the address where native code writes. */
  long landing() {
    return landing != null ? landing.address : Binding.get().addressOf(buffer);
  }

  /**
   * Called while it is held: native code has written {@code size} bytes. False if they are lost
   * because the file is shorter now.
   */
  boolean landed(long size) {
    return landing == null
        || LibC.copySafely(Binding.get().addressOf(buffer), landing.address, size);
  }

  void letGo() {
    if (held != null) held.release();
    if (landing != null) landing.release();
    held = null;
    landing = null;
  }
}
