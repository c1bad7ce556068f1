// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.eclipse.jetty.io.EofException;
import org.libripc.ItemKind;
import org.libripc.Message;
import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.RipcException;
import org.libripc.Ticket;

/**
 * The sending half of a connection: turns buffers into messages, as far as the other side gives
 * credit and has room.
 *
 * <p>What is small is copied, into the message or into memory of its own, and is the writer's again
 * at once. What is large is sent where it lies: it counts as written when the ticket says that the
 * other side has it, so the writer keeps it unchanged until then.
 *
 * <p>Any thread; everything is guarded by this. What a writer waits for comes to {@link
 * RipcEndPoint#writable}, without the lock.
 */
final class Outbound {
  /** Messages of one connection whose memory may be away at once. */
  private static final int MOST_FLIGHTS = 4;

  /** The most bytes of one message where the receiver needs memory for them. */
  private static final int LARGEST_PULLED = 1 << 20;

  // Tickets end when the other side is gone; how long it may take to read is the idle time-out's.
  private static final long TICKET_DAYS = 365;

  // A reader that has not come to the end of a message tells so often how far it is: a writer that
  // hears nothing for its idle time-out, which is a second when its server stops, gives it up.
  private static final long TELL_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

  /** What the writer waits for. */
  private enum Wait {
    NOTHING,
    CREDIT,
    ROOM,
    TICKET
  }

  /** Bytes of the writer that were sent, and how far that is. */
  private static final class Flight {
    final long bytes;
    Ticket ticket;
    boolean landed;

    Flight(long bytes, boolean landed) {
      this.bytes = bytes;
      this.landed = landed;
    }
  }

  private record Control(Frame.Type type, int flags, Frame.Reason reason) {}

  private final RipcEndPoint endPoint;
  private final Multiplexer multiplexer;
  private final boolean offers;
  private final Deque<Flight> flights = new ArrayDeque<>();
  private final Deque<Control> controls = new ArrayDeque<>();
  private Offer offer; // the return buffer of this side
  private Message request; // has one of the other side
  private int nextSequence;
  private long sent;
  private long acknowledged;
  private int window;
  private long told; // what the other side knows to be consumed
  private long toldAt = System.nanoTime();
  private long telling; // and will by the message that is being sent
  private int shortLimit;
  private boolean reliable; // short messages are
  private Wait wait = Wait.NOTHING;
  private boolean writerWaits;
  private boolean roomRequested;
  private boolean ended;
  private boolean closed;
  private IOException failure;
  // What is to be done without the lock, soon: a ticket that has failed calls back at once, and
  // the reader's lock comes before this one.
  private final Queue<Runnable> unlocked = new ConcurrentLinkedQueue<>();

  /**
   * @param offers whether a return buffer is offered to the other side, if the options ask for it
   */
  Outbound(RipcEndPoint endPoint, Multiplexer multiplexer, boolean offers) {
    this.endPoint = endPoint;
    this.multiplexer = multiplexer;
    this.offers = offers && multiplexer.returnBytes() != 0;
  }

  /**
   * What the way to the other side can do, before the first byte is sent: {@link
   * Multiplexer#shortLimit}.
   */
  synchronized void path(int limit) {
    shortLimit = Math.abs(limit);
    reliable = limit > 0;
  }

  /** Whether the death of the other side shows only when something is sent to it. */
  synchronized boolean needsProbes() {
    return !reliable && !closed;
  }

  // ---- Bytes of the stream ----

  /**
   * Sends what can be sent now. The buffers' positions move over what is the writer's again; it is
   * called again with the rest.
   *
   * @return whether everything is
   */
  boolean flush(ByteBuffer[] buffers) throws IOException {
    try {
      return send(buffers);
    } catch (RipcException problem) {
      IOException broken = new IOException(problem);
      endPoint.fail(broken);
      throw new EofException(broken);
    } finally {
      watchAll();
    }
  }

  private synchronized boolean send(ByteBuffer[] buffers) throws IOException {
    if (failure != null) throw new EofException(failure);
    if (ended) throw new EofException("the output was shut down");
    land(buffers);
    long ahead = 0;
    for (Flight flight : flights) ahead += flight.bytes;
    wait = Wait.TICKET;
    for (long left = Parts.remaining(buffers) - ahead; left > 0; ) {
      long bytes = sendData(buffers, ahead, left);
      if (bytes == 0) break;
      ahead += bytes;
      left -= bytes;
    }
    land(buffers);
    return Parts.remaining(buffers) == 0;
  }

  private void land(ByteBuffer[] buffers) {
    while (!flights.isEmpty() && flights.peek().landed) {
      long left = flights.poll().bytes;
      for (ByteBuffer buffer : buffers) {
        int part = (int) Math.min(left, buffer.remaining());
        buffer.position(buffer.position() + part);
        left -= part;
      }
    }
  }

  /** How many bytes, of the `left` ones that begin at `from`, have gone in one message; 0: none. */
  private long sendData(ByteBuffer[] buffers, long from, long left) {
    if (sent - acknowledged >= window) {
      wait = Wait.CREDIT;
      return 0;
    }
    if (flights.size() >= MOST_FLIGHTS) return 0;
    if (!sendControls()) return 0;
    Parts parts = parts(buffers, from, reliable ? left : Math.min(left, LARGEST_PULLED));
    Outgoing message = header(Frame.Type.DATA, 0, Frame.Reason.NONE, 0);
    Flight flight;
    RegisteredBuffer copy = null;
    Message into = null;
    try {
      boolean offering = offers && offer().attachTo(message);
      if (reliable && parts.bytes() + Frame.BYTES <= shortLimit) {
        flight = new Flight(parts.bytes(), true);
        parts.addTo(message, ItemKind.SHORT);
      } else if (request != null && parts.cutToReturn(request.returnSize(0))) {
        flight = new Flight(parts.bytes(), false);
        parts.addTo(message, ItemKind.RETURN);
        into = request;
      } else if (parts.bytes() <= multiplexer.copyLimit() || !parts.canStay(shortLimit)) {
        if (parts.bytes() > LARGEST_PULLED) parts = parts(buffers, from, LARGEST_PULLED);
        flight = new Flight(parts.bytes(), true);
        copy = multiplexer.lease((int) parts.bytes());
        multiplexer.copied(parts.bytes());
        message.add(parts.copyTo(copy.buffer()), ItemKind.LONG);
        // Nobody waits for it: if it is lost, the other side or the end of that one tells.
        if (reliable) message.quiet();
      } else {
        flight = new Flight(parts.bytes(), false);
        parts.addTo(message, ItemKind.LONG);
      }
      flight.ticket = send(message, into);
      if (offering && flight.ticket != null) offer.sent(message.requestId());
    } finally {
      message.clear();
      if (copy != null) copy.release();
    }
    if (flight.ticket == null) return 0;
    if (into != null) dropRequest();
    ++nextSequence;
    sent += flight.bytes + Frame.COST;
    flights.add(flight);
    if (copy != null && reliable) {
      multiplexer.settleLater();
    } else {
      watch(flight);
    }
    return flight.bytes;
  }

  private Parts parts(ByteBuffer[] buffers, long from, long size) {
    return new Parts(buffers, from, size, reliable);
  }

  private Offer offer() {
    if (offer == null) offer = new Offer(multiplexer.lease(multiplexer.returnBytes()));
    return offer;
  }

  private void dropRequest() {
    if (request != null) request.close();
    request = null;
  }

  private void watch(Flight flight) {
    Ticket ticket = flight.ticket;
    if (ticket.isDone() && !ticket.isCompletedExceptionally()) {
      flight.landed = true;
      return;
    }
    multiplexer.track(ticket);
    whenComplete(ticket, problem -> landed(flight, problem));
  }

  private void whenComplete(Ticket ticket, Consumer<Throwable> action) {
    unlocked.add(() -> ticket.whenComplete((nothing, problem) -> action.accept(problem)));
  }

  private void watchAll() {
    for (Runnable next = unlocked.poll(); next != null; next = unlocked.poll()) next.run();
  }

  // From the ticket, in the responder thread.
  private void landed(Flight flight, Throwable problem) {
    boolean broken;
    synchronized (this) {
      flight.landed = problem == null;
      broken = problem != null && !closed;
      if (!broken) wakeWriter();
    }
    if (broken) endPoint.fail(new IOException("A part of the stream was not taken", problem));
  }

  /** Asks the tickets, which on shared memory may know more than their callbacks have told. */
  void look() {
    for (Ticket each : underWay()) if (!each.poll()) return;
  }

  private synchronized List<Ticket> underWay() {
    if (flights.isEmpty()) return List.of();
    return flights.stream().filter(flight -> !flight.landed).map(flight -> flight.ticket).toList();
  }

  // ---- Control messages ----

  /** Sends it now, or when there is room. */
  void control(Frame.Type type, int flags, Frame.Reason reason) {
    IOException broken = null;
    synchronized (this) {
      controls.add(new Control(type, flags, reason));
      try {
        sendControls();
      } catch (RipcException problem) {
        controls.clear();
        broken = new IOException(problem);
      }
    }
    watchAll();
    if (broken != null) endPoint.fail(broken);
  }

  /** Ends the stream. */
  void end() {
    synchronized (this) {
      if (ended || failure != null) return;
      ended = true;
    }
    control(Frame.Type.DATA, Frame.END, Frame.Reason.NONE);
  }

  /** Tells what was consumed if the other side may be waiting for that, or for a sign of life. */
  void credit(long consumed, long waiting) {
    synchronized (this) {
      long untold = consumed - told;
      boolean mayWait = untold >= multiplexer.window() / 2 && waiting < multiplexer.window();
      boolean slow = untold > 0 && waiting > 0 && System.nanoTime() - toldAt >= TELL_NANOS;
      if (closed || !mayWait && !slow) return;
      for (Control each : controls) if (each.type == Frame.Type.CREDIT) return;
    }
    control(Frame.Type.CREDIT, 0, Frame.Reason.NONE);
  }

  private boolean sendControls() {
    for (Control next = controls.peek(); next != null; next = controls.peek()) {
      int credit = next.type == Frame.Type.OPEN || next.type == Frame.Type.ACCEPT ? 1 : 0;
      Outgoing message =
          header(
              next.type,
              next.flags | Frame.FILLER,
              next.reason,
              credit == 0 ? 0 : multiplexer.window());
      try {
        if (credit != 0 || !reliable) message.add(multiplexer.filler(), ItemKind.LONG);
        Ticket ticket = send(message, null);
        if (ticket == null) return false;
        if (next.type == Frame.Type.DATA || next.type == Frame.Type.CLOSE) ++nextSequence;
        if (credit != 0 || next.type == Frame.Type.CREDIT) watchLife(ticket, credit != 0);
        if (credit == 0) multiplexer.track(ticket);
        controls.poll();
      } finally {
        message.clear();
      }
    }
    return true;
  }

  // What the other side holds as long as the connection lives tells of its death; or that it was
  // given back, which an end without a word does too.
  private void watchLife(Ticket ticket, boolean held) {
    if (!held && ticket.isDone() && !ticket.isCompletedExceptionally()) return;
    whenComplete(
        ticket,
        problem -> {
          boolean open;
          synchronized (this) {
            open = !closed;
          }
          if (open && problem != null) {
            endPoint.fail(new IOException("The other side is gone", problem));
          } else if (open && held) {
            endPoint.givenBack();
          }
        });
  }

  private Outgoing header(Frame.Type type, int flags, Frame.Reason reason, int ownWindow) {
    telling = endPoint.consumed();
    Frame frame = new Frame(type, flags, reason, nextSequence, telling, ownWindow);
    Outgoing message = multiplexer.outgoing().clear().tag(endPoint.number());
    message.timeout(TICKET_DAYS, TimeUnit.DAYS).add(frame.encode(), ItemKind.SHORT);
    return message;
  }

  /** Null, and an event will come, if there is no room. */
  private Ticket send(Outgoing message, Message replyTo) {
    Ticket ticket = multiplexer.send(endPoint, message, replyTo);
    if (ticket == null) {
      wait = Wait.ROOM;
      roomRequested = true;
    } else {
      told = Math.max(told, telling);
      toldAt = System.nanoTime();
    }
    return ticket;
  }

  // ---- Return buffers ----

  /** A message with a return buffer, whose bytes were read. Takes it over. */
  synchronized void offered(Message message) {
    dropRequest();
    request = message;
    if (closed) dropRequest();
  }

  /** An answer to the message with the return buffer of this side has come. */
  synchronized void answered(long requestId) {
    if (offer != null) offer.answered(requestId);
  }

  /** And was read. */
  synchronized void answerRead() {
    if (offer != null) offer.read();
  }

  // ---- Events ----

  /**
   * The other side takes up to so many bytes ahead of what it has read. Those are copies that are
   * kept here until then, so there are never more than the window of this side.
   */
  synchronized void window(int bytes) {
    window = Math.min(bytes, multiplexer.window());
  }

  /** Whether this is more than the other side has told before. */
  synchronized boolean isNews(long bytes) {
    return bytes > acknowledged;
  }

  /** The other side has read so much; false if it cannot have. */
  synchronized boolean acknowledge(long bytes) {
    if (bytes > sent) return false;
    acknowledged = Math.max(acknowledged, bytes);
    wakeWriter();
    return true;
  }

  /** The other side may have room again. */
  void room() {
    boolean broken = false;
    RipcException cause = null;
    synchronized (this) {
      roomRequested = false;
      if (failure != null) controls.clear(); // the other side may be gone: nobody looks for it here
      try {
        if (sendControls()) wakeWriter();
      } catch (RipcException problem) {
        controls.clear();
        broken = true;
        cause = problem;
      }
    }
    watchAll();
    if (broken) endPoint.fail(new IOException(cause));
  }

  /** The writer waits until {@link RipcEndPoint#writable}, which comes at once if it can go on. */
  synchronized void await() {
    writerWaits = true;
    wakeWriter();
  }

  private void wakeWriter() {
    if (!writerWaits || !canProgress()) return;
    writerWaits = false;
    endPoint.writable();
  }

  private boolean canProgress() {
    if (failure != null || closed) return true;
    if (!flights.isEmpty() && flights.peek().landed) return true;
    return switch (wait) {
      case NOTHING -> true;
      case CREDIT -> sent - acknowledged < window;
      case ROOM -> !roomRequested;
      case TICKET -> false;
    };
  }

  /** Writes fail from now on. */
  synchronized void fail(IOException cause) {
    if (failure == null) failure = cause;
    wakeWriter();
  }

  /**
   * Ends it. What the writer has not got back is withdrawn, and the other side told that the stream
   * broke off; else that it is closed.
   *
   * @param complete whether the other side knows already, because both streams have ended
   */
  void close(boolean complete) {
    Deque<Flight> withdrawn;
    Offer given;
    boolean gone;
    boolean wasEnded;
    synchronized (this) {
      if (closed) return;
      closed = true;
      gone = failure != null;
      wasEnded = ended;
      ended = true;
      withdrawn = new ArrayDeque<>(flights);
      flights.clear();
      dropRequest();
      given = offer;
    }
    if (given != null) given.close(multiplexer.service());
    boolean torn = false;
    for (Flight flight : withdrawn) {
      if (flight.landed || flight.ticket.isDone()) continue;
      torn = true;
      flight.ticket.cancel(false);
    }
    if (torn) {
      control(Frame.Type.RESET, 0, Frame.Reason.ABORTED);
    } else if (!gone && !(complete && wasEnded)) {
      control(Frame.Type.CLOSE, Frame.END, Frame.Reason.NONE);
    }
  }

  @Override
  public synchronized String toString() {
    return String.format(
        "sent=%d/%d+%d,told=%d,flights=%d,controls=%d,wait=%s%s%s",
        sent,
        acknowledged,
        window,
        told,
        flights.size(),
        controls.size(),
        writerWaits ? wait : "-",
        ended ? ",ended" : "",
        failure == null ? "" : ",failed");
  }
}
