// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * Memory that libripc may write: the application's, or a registered buffer's, which is kept while
 * it is held. Guarded by whoever has it.
 */
final class WritableMemory {
  private final ByteBuffer buffer;
  private final RegisteredBuffer registered;
  private CountedMemory held;

  /** {@code what} it is for, for people. */
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

  void hold() {
    if (registered == null) return;
    held = registered.retainedMemory();
  }

  void letGo() {
    if (held != null) held.release();
    held = null;
  }
}
