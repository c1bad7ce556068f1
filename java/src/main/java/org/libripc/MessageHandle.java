// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import org.libripc.internal.Guard;
import org.libripc.internal.NativeBlock;

/**
 * A native message that Java still needs: it has lent views, or return buffers to reply into. Keeps
 * the context. Run by the garbage collector's net if its {@link Message} was never closed.
 */
final class MessageHandle implements Runnable {
  private final Ripc ripc;
  private final long address;
  private final Throwable trace = Leaks.trace();
  private final Guard guard = new Guard(this::destroy);

  /** The context is entered for it already. */
  MessageHandle(Ripc ripc, long address) {
    this.ripc = ripc;
    this.address = address;
    ripc.handles().add(this);
  }

  long enter() {
    if (!guard.tryEnter())
      throw new IllegalStateException("This message was closed: it cannot be used any more.");
    return address;
  }

  void leave() {
    guard.leave();
  }

  /**
   * A lent item where it is, read only. Its memory is never unmapped while a buffer over it can be
   * reached, but it is the sender's again when the message was closed.
   */
  ByteBuffer borrow(long data, long size) {
    NativeBlock hold = new NativeBlock(8);
    long message = enter();
    try {
      ripc.enter();
      int status = ripc.binding().holdViews(message, hold.address);
      if (status != 0) {
        ripc.guard().leave();
        throw RipcException.ofLastCall(status);
      }
      ByteBuffer root = ripc.binding().view(data, size);
      Leaks.CLEANER.register(root, endOfViews(ripc, hold.bytes.getLong(0)));
      return root.asReadOnlyBuffer();
    } finally {
      leave();
    }
  }

  // Must not refer to the buffer.
  private static Runnable endOfViews(Ripc ripc, long hold) {
    return () -> {
      ripc.binding().releaseViews(hold);
      ripc.guard().leave();
    };
  }

  void close() {
    guard.close();
  }

  @Override
  public void run() {
    if (guard.close())
      Leaks.report("A Message with lent items or return buffers was never closed", trace);
  }

  private void destroy() {
    ripc.handles().remove(this);
    ripc.binding().releaseMessage(address);
    ripc.guard().leave();
  }
}
