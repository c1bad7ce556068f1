// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** The header of a message of a stream, as docs/wire.md has it: written once more, for tests. */
record RawFrame(Type type, int flags, Reason reason, int sequence, long consumed, int window) {
  enum Type {
    OPEN,
    ACCEPT,
    DATA,
    CREDIT,
    CLOSE,
    RESET
  }

  enum Reason {
    NONE,
    REFUSED,
    STOPPING,
    LIMIT,
    UNKNOWN,
    PROTOCOL,
    ABORTED,
    VERSION
  }

  static final int FILLER = 2;

  ByteBuffer encode() {
    return ByteBuffer.allocate(20)
        .order(ByteOrder.LITTLE_ENDIAN)
        .put((byte) 1)
        .put((byte) (type.ordinal() + 1))
        .put((byte) flags)
        .put((byte) reason.ordinal())
        .putInt(sequence)
        .putLong(consumed)
        .putInt(window)
        .flip();
  }

  static RawFrame decode(ByteBuffer item) {
    ByteBuffer bytes = item.slice().order(ByteOrder.LITTLE_ENDIAN);
    return new RawFrame(
        Type.values()[bytes.get(1) - 1],
        bytes.get(2),
        Reason.values()[bytes.get(3)],
        bytes.getInt(4),
        bytes.getLong(8),
        bytes.getInt(16));
  }
}
