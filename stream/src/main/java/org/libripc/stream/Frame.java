// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The header of a message of a stream connection, its first item. docs/wire.md, "Stream
 * connections".
 *
 * @param type the kind of message
 * @param flags {@link #END}, {@link #FILLER}, {@link #AWAITED}
 * @param reason of a RESET
 * @param sequence position of a DATA or CLOSE in the order of its direction
 * @param consumed what the reader of the other direction has consumed of its window
 * @param window of OPEN and ACCEPT: bytes that the other side may send ahead of its reader
 */
record Frame(Type type, int flags, Reason reason, int sequence, long consumed, int window) {
  /** The kind of a message. The order is that of the wire. */
  enum Type {
    OPEN,
    ACCEPT,
    DATA,
    CREDIT,
    CLOSE,
    RESET
  }

  /** Why a connection was reset. The order is that of the wire. */
  enum Reason {
    NONE("was reset"),
    REFUSED("was refused: the server does not admit this service ID"),
    STOPPING("was refused: the server is stopping"),
    LIMIT("was refused: the server has as many connections as it takes"),
    UNKNOWN("is unknown to the other side"),
    PROTOCOL("broke the protocol"),
    ABORTED("was given up by the other side"),
    VERSION("was refused: the other side speaks another version");

    final String text;

    Reason(String text) {
      this.text = text;
    }
  }

  static final int BYTES = 20;

  /** What each message uses of the window in addition to its bytes. */
  static final int COST = 256;

  /** The sender has nothing more to send after this. */
  static final int END = 1;

  /** The items after the header are not bytes of the stream. */
  static final int FILLER = 2;

  /**
   * The sender waits until it knows that this was read: a reader that then waits for more reports
   * it.
   */
  static final int AWAITED = 4;

  private static final byte VERSION = 1;
  private static final Type[] TYPES = Type.values();
  private static final Reason[] REASONS = Reason.values();

  boolean has(int flag) {
    return (flags & flag) != 0;
  }

  ByteBuffer encode() {
    return ByteBuffer.allocate(BYTES)
        .order(ByteOrder.LITTLE_ENDIAN)
        .put(VERSION)
        .put((byte) (type.ordinal() + 1))
        .put((byte) flags)
        .put((byte) reason.ordinal())
        .putInt(sequence)
        .putLong(consumed)
        .putInt(window)
        .flip();
  }

  /** Null if it is not a header that this version knows. */
  static Frame decode(ByteBuffer item) {
    if (item.remaining() != BYTES) return null;
    ByteBuffer bytes = item.slice().order(ByteOrder.LITTLE_ENDIAN);
    int type = Byte.toUnsignedInt(bytes.get(1)) - 1;
    int reason = Byte.toUnsignedInt(bytes.get(3));
    long consumed = bytes.getLong(8);
    int window = bytes.getInt(16);
    if (bytes.get(0) != VERSION || type < 0 || type >= TYPES.length) return null;
    if (consumed < 0 || window < 0) return null;
    return new Frame(
        TYPES[type],
        Byte.toUnsignedInt(bytes.get(2)),
        reason < REASONS.length ? REASONS[reason] : Reason.NONE,
        bytes.getInt(4),
        consumed,
        window);
  }
}
