// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * Memory that libripc may write: the application's, or of the pool, which is kept while it is held.
 * Guarded by whoever has it.
 */
final class WritableMemory {
  private final ByteBuffer buffer;
  private final RegisteredBuffer registered;
  private PoolMemory held;

  /** {@code what} it is for, for people. */
  WritableMemory(ByteBuffer direct, String what) {
    if (!direct.isDirect() || direct.isReadOnly()) {
      throw new IllegalArgumentException(
          what + " needs a direct buffer that can be written: lease() one");
    }
    buffer = direct.slice();
    registered = null;
  }

  WritableMemory(RegisteredBuffer registered) {
    this.registered = Objects.requireNonNull(registered);
    buffer = registered.buffer();
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
