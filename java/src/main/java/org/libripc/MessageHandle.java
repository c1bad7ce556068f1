// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import org.libripc.internal.Guard;
import org.libripc.internal.Leaks;

/**
 * The native message of a {@link Message} that has lent views, or return buffers to reply into.
 * Keeps the context. Runs when the garbage collector finds that its {@link Message} was never
 * closed.
 */
final class MessageHandle extends NativeMessage implements Runnable {
  private final long address;
  private final Throwable trace = Leaks.trace();
  private final Guard guard = new Guard(this::destroy);

  /** The caller has entered the context for it already. */
  MessageHandle(RipcCore ripc, long address) {
    super(ripc);
    this.address = address;
    ripc.add(this);
  }

  @Override
  long enter() {
    if (!guard.tryEnter())
      throw new IllegalStateException("This message was closed: it cannot be used any more.");
    return address;
  }

  @Override
  void leave() {
    guard.leave();
  }

  @Override
  void close() {
    guard.close();
  }

  @Override
  public void run() {
    if (guard.close() || ripc.isLost())
      Leaks.report("Message", " with lent items or return buffers", trace);
  }

  private void destroy() {
    ripc.handles().remove(this);
    ripc.binding().releaseMessage(address);
    ripc.guard().leave();
  }
}
