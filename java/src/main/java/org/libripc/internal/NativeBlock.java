// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * Memory of the JVM with a known address, zeroed, for arguments and results of native calls. The
 * garbage collector frees it, so code that passes the address on must keep the block reachable
 * until the call has returned.
 */
public final class NativeBlock {
  /** All of it, in native byte order. */
  public final ByteBuffer bytes;

  /** Where it starts. */
  public final long address;

  public NativeBlock(int size) {
    // Even a block of 0 bytes has an address. A negative size comes from an overflow, and is
    // refused here.
    int room = size == 0 ? 1 : size;
    bytes = ByteBuffer.allocateDirect(room).order(ByteOrder.nativeOrder());
    address = Binding.get().addressOf(bytes);
  }

  /** A C string; null stays null. A NUL, which would end it, is refused. */
  public static NativeBlock of(String text) {
    if (text == null) return null;
    if (text.indexOf('\0') >= 0)
      throw new IllegalArgumentException("an option has a character 0: leave it out");
    byte[] encoded = text.getBytes(StandardCharsets.UTF_8);
    NativeBlock block = new NativeBlock(encoded.length + 1);
    block.bytes.put(0, encoded);
    return block;
  }

  /** The address, or 0 for null. */
  public static long addressOf(NativeBlock block) {
    return block == null ? 0 : block.address;
  }

  /**
   * Keeps blocks reachable up to here: nothing else does, since native code has only their
   * addresses.
   */
  public static void keep(NativeBlock... blocks) {
    for (NativeBlock block : blocks) Reference.reachabilityFence(block);
  }

  /** The C string at an offset of a buffer, in a field of {@code room} bytes. */
  public static String text(ByteBuffer bytes, int offset, int room) {
    int length = 0;
    while (length < room && bytes.get(offset + length) != 0) ++length;
    byte[] encoded = new byte[length];
    bytes.get(offset, encoded);
    return new String(encoded, StandardCharsets.UTF_8);
  }
}
