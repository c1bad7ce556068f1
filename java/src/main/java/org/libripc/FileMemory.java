// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import org.libripc.internal.Binding;
import org.libripc.internal.LibC;

/**
 * Buffers over mapped files. Their memory disappears when somebody makes the file shorter. A thread
 * that touches it then gets a signal. Outside the JVM's own code this signal ends the JVM. So
 * native code never touches such memory: it has the kernel copy it, which returns an error if the
 * memory is gone.
 */
final class FileMemory {
  private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

  private FileMemory() {}

  /**
   * Whether a buffer is over a file: one made by {@link java.nio.channels.FileChannel#map}, or
   * derived from such a buffer.
   */
  static boolean isMapped(ByteBuffer buffer) {
    // Every direct buffer has this class. One that is not mapped ignores the call; a mapped one
    // checks the range, which is invalid.
    if (!(buffer instanceof MappedByteBuffer direct)) return false;
    try {
      direct.force(direct.capacity(), 1);
      return false;
    } catch (IndexOutOfBoundsException mapped) {
      return true;
    }
  }

  /**
   * Throws if a buffer's memory segment is closed, or belongs to another thread. Touches no byte,
   * which may be gone.
   */
  static void checkOpen(ByteBuffer direct) {
    NOTHING.put(0, direct, 0, 0);
  }

  /**
   * Copies memory; either end may be over a file.
   *
   * @throws RipcException {@link Status#INVALID_ARGUMENT} if the file is shorter now
   */
  static void copy(long to, long from, long size) {
    if (!LibC.copySafely(to, from, size)) {
      throw RipcException.of(
          Status.INVALID_ARGUMENT,
          "The file of a mapped buffer is shorter than the buffer: map it again.");
    }
  }

  /** Copies all of a buffer to another one, at its position, and advances that position. */
  static void copy(ByteBuffer to, ByteBuffer from) {
    int size = from.remaining();
    if (size == 0 || (!isMapped(to) && !isMapped(from))) {
      to.put(from);
    } else if (!to.isDirect()) {
      ByteBuffer between = ByteBuffer.allocateDirect(size);
      copy(between, from);
      to.put(between.flip());
    } else if (!from.isDirect()) {
      copy(to, ByteBuffer.allocateDirect(size).put(from).flip());
    } else {
      checkOpen(to);
      checkOpen(from);
      copy(addressOf(to), addressOf(from), size);
      Reference.reachabilityFence(from);
      to.position(to.position() + size);
    }
  }

  private static long addressOf(ByteBuffer direct) {
    return Binding.get().addressOf(direct) + direct.position();
  }
}
