// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import org.libripc.ItemKind;
import org.libripc.Outgoing;
import org.libripc.RipcException;
import org.libripc.Ticket;

/**
 * Messages of a stream that carry no bytes, in their order. They are sent at once, or when there is
 * room.
 *
 * <p>Guarded by its {@link Outbound}.
 */
final class ControlQueue {
  private record Control(Frame.Type type, int flags, Frame.Reason reason) {
    boolean isOpening() {
      return type == Frame.Type.OPEN || type == Frame.Type.ACCEPT;
    }

    /** Whether it has a place in the order of the stream. */
    boolean isOrdered() {
      return type == Frame.Type.DATA || type == Frame.Type.CLOSE;
    }
  }

  private final Outbound out;
  private final ByteStream stream;
  private final Multiplexer multiplexer;
  private final Deque<Control> waiting = new ArrayDeque<>();

  ControlQueue(Outbound out, ByteStream stream, Multiplexer multiplexer) {
    this.out = out;
    this.stream = stream;
    this.multiplexer = multiplexer;
  }

  void add(Frame.Type type, int flags, Frame.Reason reason) {
    waiting.add(new Control(type, flags, reason));
  }

  boolean has(Frame.Type type) {
    return waiting.stream().anyMatch(each -> each.type == type);
  }

  void clear() {
    waiting.clear();
  }

  /** Sends what can be sent; returns whether all is. Forgets all if that fails. */
  boolean send() {
    try {
      return sendAll();
    } catch (RipcException problem) {
      clear();
      throw problem;
    }
  }

  private boolean sendAll() {
    for (Control next = waiting.peek(); next != null; next = waiting.peek()) {
      boolean opening = next.isOpening();
      Outgoing message = out.header(next.type, next.flags | Frame.FILLER, next.reason, opening);
      try {
        if (opening || !out.isReliable()) message.add(multiplexer.filler(), ItemKind.LONG);
        Ticket ticket = out.send(message, null);
        if (ticket == null) return false;
        if (next.isOrdered()) out.nextSequence();
        if (opening || next.type == Frame.Type.CREDIT) watchLife(ticket, opening);
        if (!opening) multiplexer.unacked.add(ticket);
        waiting.remove();
      } finally {
        multiplexer.messages.giveBack(message.clear());
      }
    }
    return true;
  }

  // The ticket of a message that the other side holds as long as the stream lives shows that side's
  // death, or that the message was given back, which also happens if that side ends silently.
  private void watchLife(Ticket ticket, boolean held) {
    if (!held && InFlight.isTaken(ticket)) return;
    out.whenComplete(
        ticket,
        problem -> {
          if (!out.isOpen()) return;
          if (problem != null) {
            stream.fail(new IOException("The other side is gone", problem));
          } else if (held) {
            stream.givenBack();
          }
        });
  }

  @Override
  public String toString() {
    return Integer.toString(waiting.size());
  }
}
