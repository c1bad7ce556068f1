// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import org.libripc.internal.Guard;

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
