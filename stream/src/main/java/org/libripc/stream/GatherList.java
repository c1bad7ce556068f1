// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.libripc.ItemKind;
import org.libripc.Outgoing;
import org.libripc.Ripc;

/**
 * The bytes of a writer's buffers that go into one message, and how they can travel in it. One
 * thread.
 */
final class GatherList {
  /** Parts up to this size are copied into the message in which a large part travels. */
  private static final int SMALL = 1024;

  /** Items of one message, besides the header. */
  static final int MOST = 60;

  private final List<ByteBuffer> parts = new ArrayList<>();
  private final boolean reliable;
  private ByteBuffer given; // the buffer that the writer will not change; null: none
  private long bytes;

  /**
   * @param reliable whether short messages always arrive; if not, each message needs a long item
   * @param gift the buffer that the writer will not change; null: none
   */
  GatherList(ByteBuffer[] buffers, long from, long size, boolean reliable, ByteBuffer gift) {
    this.reliable = reliable;
    for (ByteBuffer buffer : buffers) {
      int skipped = (int) Math.min(from, buffer.remaining());
      int part = (int) Math.min(size - bytes, buffer.remaining() - skipped);
      from -= skipped;
      if (part == 0) continue;
      ByteBuffer slice = buffer.slice(buffer.position() + skipped, part);
      if (buffer == gift) given = slice;
      add(slice);
    }
  }

  private void add(ByteBuffer part) {
    parts.add(part);
    bytes += part.remaining();
  }

  /** The remaining bytes of a writer's buffers. */
  static long remaining(ByteBuffer[] buffers) {
    long bytes = 0;
    for (ByteBuffer buffer : buffers) bytes += buffer.remaining();
    return bytes;
  }

  long bytes() {
    return bytes;
  }

  /** Whether the parts can be sent in place. */
  boolean canBeBorrowed(int shortLimit) {
    long smallBytes = 0;
    for (ByteBuffer part : parts) {
      if (isSmall(part)) smallBytes += part.remaining();
      else if (!part.isDirect()) return false;
    }
    return parts.size() <= MOST && fitsBesides(smallBytes, shortLimit);
  }

  /**
   * Whether they are in the buffer that the writer will not change, with little enough else to be
   * copied.
   */
  boolean canBeGiven(int shortLimit) {
    if (given == null || parts.size() > MOST) return false;
    return fitsBesides(bytes - given.remaining(), shortLimit);
  }

  private static boolean fitsBesides(long smallBytes, int shortLimit) {
    return smallBytes + Frame.BYTES <= Math.min(shortLimit / 2, 3 * SMALL);
  }

  /** Whether the parts that are sent in place are in memory that is leased from a context. */
  boolean areLeasedFrom(Ripc ripc) {
    for (ByteBuffer part : parts) if (!isSmall(part) && !ripc.isLeased(part)) return false;
    return true;
  }

  private boolean isSmall(ByteBuffer part) {
    return reliable && part.remaining() <= SMALL;
  }

  /**
   * Cuts the parts so that the last one, which is large, fits into a return buffer, and those
   * before it are small. If that is impossible it cuts nothing and returns false.
   */
  boolean cutToReturn(long room) {
    long before = 0;
    for (int index = 0; index < Math.min(parts.size(), MOST); ++index) {
      ByteBuffer part = parts.get(index);
      if (part.remaining() <= SMALL) {
        before += part.remaining();
        if (before > 2 * SMALL || !reliable && !part.isDirect()) return false;
        continue;
      }
      // Nothing reports a part that was written into the buffer, so the message must not get lost.
      if (!part.isDirect() || room <= SMALL || !reliable && index == 0) return false;
      parts.subList(index, parts.size()).clear();
      bytes = before;
      add(part.slice(0, (int) Math.min(part.remaining(), room)));
      return true;
    }
    return false;
  }

  /**
   * Adds the parts to a message, in the way that was chosen for them.
   *
   * @param mode if short, there may be more of them than items
   */
  void addTo(Outgoing message, SendMode mode) {
    ItemKind large = mode.kind;
    if (parts.size() > MOST) {
      message.add(copyTo(ByteBuffer.allocate((int) bytes)), large);
      return;
    }
    for (ByteBuffer part : parts) {
      if (mode == SendMode.GIVE ? part != given : large == ItemKind.SHORT || isSmall(part)) {
        message.add(part, ItemKind.SHORT);
      } else if (large == ItemKind.RETURN && part.remaining() > SMALL) {
        message.addReturn(part, 0);
      } else {
        message.add(part, ItemKind.LONG);
      }
    }
  }

  /**
   * Copies the parts into a buffer from its position on, and sets the position back to its start.
   */
  ByteBuffer copyTo(ByteBuffer all) {
    for (ByteBuffer part : parts) all.put(part);
    return all.flip();
  }
}
