// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import org.libripc.internal.Leaks;
import org.libripc.internal.NativeBinding;
import org.libripc.internal.NativeBlock;

/** A native message that Java still needs, with its lent items. */
abstract class NativeMessage {
  /**
   * Where a lent item is. It is stored next to what keeps the item readable, because the record it
   * came from is overwritten as soon as the message is closed.
   */
  record Lent(long data, long size) {}

  final RipcCore ripc;
  // By item index; the entry is null if the item is not lent. Null if no item is lent.
  Lent[] lent;

  NativeMessage(RipcCore ripc) {
    this.ripc = ripc;
  }

  /** Returns its address, which is valid until {@link #leave}. */
  abstract long enter();

  abstract void leave();

  /** Gives it back. */
  abstract void close();

  private Lent lent(int index) {
    Lent item = lent != null && index < lent.length ? lent[index] : null;
    if (item == null) throw new IllegalStateException("Another thread has received meanwhile.");
    return item;
  }

  static void checkFrom(long from, long size) {
    if (from < 0 || from > size)
      throw new IndexOutOfBoundsException("byte " + from + " of " + size);
  }

  /** Copies bytes of a lent item, as {@link Message#copyTo}. */
  int copyTo(int index, long from, ByteBuffer to) {
    Lent item = lent(index);
    checkFrom(from, item.size);
    int most = (int) Math.min(item.size - from, to.remaining());
    ByteBuffer target = to.isDirect() ? to.slice() : ByteBuffer.allocateDirect(most);
    int count = Math.min(most, target.capacity());
    FileMemory.checkOpen(target);
    enter();
    try {
      NativeBinding binding = ripc.binding();
      long at = binding.addressOf(target);
      if (FileMemory.isMapped(target)) {
        FileMemory.copy(at, item.data + from, count);
      } else {
        binding.copy(at, item.data + from, count);
      }
    } finally {
      leave();
    }
    if (to.isDirect()) {
      to.position(to.position() + count);
    } else {
      to.put(target);
    }
    return count;
  }

  /**
   * A view of a lent item in place, read only. Its memory is never unmapped while a buffer over it
   * can be reached, but belongs to the sender again after the message is closed.
   */
  ByteBuffer borrow(int index) {
    Lent item = lent(index);
    if (item.size > Integer.MAX_VALUE)
      throw new IllegalStateException("Item " + index + " is too large for one buffer.");
    NativeBlock hold = new NativeBlock(8);
    long message = enter();
    try {
      ripc.enter();
      int status = ripc.binding().holdViews(message, hold.address);
      if (status != 0) {
        ripc.guard().leave();
        throw RipcException.ofLastCall(status);
      }
      ByteBuffer root = ripc.binding().view(item.data, item.size);
      Leaks.CLEANER.register(root, endOfViews(ripc, hold.bytes.getLong(0)));
      return root.asReadOnlyBuffer();
    } finally {
      leave();
    }
  }

  // The returned action must not refer to the buffer.
  private static Runnable endOfViews(RipcCore ripc, long hold) {
    return () -> {
      ripc.binding().releaseViews(hold);
      ripc.guard().leave();
    };
  }
}
