// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.eclipse.jetty.io.EofException;
import org.eclipse.jetty.util.thread.AutoLock;
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
 * other side has it, so the writer keeps it unchanged until then. Over shared memory nobody is
 * woken to be told so: what comes of the other side next tells, or a look now and then ({@link
 * Lookout}).
 *
 * <p>Any thread; everything is guarded by one lock. What a writer waits for comes to {@link
 * RipcEndPoint#writable}, without the lock.
 */
@SuppressWarnings("try") // locks
final class Outbound {
  /** The most bytes of one message where the receiver needs memory for them. */
  private static final int LARGEST_PULLED = 1 << 20;

  // The other side tells of what it has read of more, for which the writer would not wait.
  private static final int GIVEN_OF_WINDOW = 2;

  // Tickets end when the other side is gone; how long it may take to read is the idle time-out's.
  private static final long TICKET_DAYS = 365;

  private final AutoLock lock = new AutoLock();
  private final RipcEndPoint endPoint;
  private final Multiplexer multiplexer;
  private final Credit credit;
  private final Returns returns;
  private final Flights flights = new Flights();
  private final Habit habit = new Habit();
  private final Controls controls = new Controls();
  private int nextSequence;
  private long telling; // what was consumed, by the message that is being sent
  private int shortLimit;
  private boolean reliable; // short messages are
  private final WriterWait wait;
  private boolean ended;
  private boolean closed;
  private IOException failure;
  private ByteBuffer gift;
  private final Afterwards afterwards = new Afterwards();

  /**
   * @param offers whether a return buffer is offered to the other side, if the options ask for it
   */
  Outbound(RipcEndPoint endPoint, Multiplexer multiplexer, boolean offers) {
    this.endPoint = endPoint;
    this.multiplexer = multiplexer;
    credit = new Credit(multiplexer.window());
    returns = new Returns(multiplexer, lock, offers);
    wait = new WriterWait(credit, flights);
  }

  /**
   * What the way to the other side can do, before the first byte is sent: {@link
   * Multiplexer#shortLimit}.
   */
  void path(int limit) {
    try (AutoLock l = lock.lock()) {
      shortLimit = Math.abs(limit);
      reliable = limit > 0;
    }
  }

  /** Whether the calling thread has the lock. */
  boolean isHeld() {
    return lock.isHeldByCurrentThread();
  }

  /** Whether the death of the other side shows only when something is sent to it. */
  boolean needsProbes() {
    try (AutoLock l = lock.lock()) {
      return !reliable && !closed;
    }
  }

  // ---- Bytes of the stream ----

  /**
   * The writer changes the bytes of a buffer no more. If it is the next that is written, the write
   * need not wait for the other side: until that has taken it, its memory, which must be leased
   * from the context, is kept here. Null: no such buffer any more.
   */
  void give(ByteBuffer buffer) {
    try (AutoLock l = lock.lock()) {
      gift = buffer;
    }
  }

  /**
   * Sends what can be sent now. The buffers' positions move over what is the writer's again; it is
   * called again with the rest.
   *
   * @param lent whether the writer keeps bytes as they are until that; else all that goes is copied
   * @return whether everything is
   */
  boolean flush(ByteBuffer[] buffers, boolean lent) throws IOException {
    try {
      boolean complete = send(buffers, lent);
      if (!complete && isLookedFor()) multiplexer.lookout().add(this);
      return complete;
    } catch (RipcException problem) {
      IOException broken = new IOException(problem);
      endPoint.fail(broken);
      throw new EofException(broken);
    } finally {
      afterwards.run();
    }
  }

  private boolean send(ByteBuffer[] buffers, boolean lent) throws IOException {
    try (AutoLock l = lock.lock()) {
      if (failure != null) throw new EofException(failure);
      if (ended) throw new EofException("the output was shut down");
      flights.land(buffers);
      long ahead = flights.bytes();
      wait.forTicket();
      for (long left = Parts.remaining(buffers) - ahead; left > 0; ) {
        long bytes = sendData(buffers, ahead, left, lent);
        if (bytes == 0) break;
        ahead += bytes;
        left -= bytes;
      }
      flights.land(buffers);
      return Parts.remaining(buffers) == 0;
    }
  }

  /** How many bytes, of the `left` ones that begin at `from`, have gone in one message; 0: none. */
  private long sendData(ByteBuffer[] buffers, long from, long left, boolean lent) {
    if (!credit.allows()) {
      wait.forCredit();
      return 0;
    }
    if (flights.isFull() || !sendControls()) return 0;
    Parts parts = parts(buffers, from, reliable ? left : Math.min(left, LARGEST_PULLED));
    Way way = lent ? wayOf(parts) : Way.copying(parts, reliable ? shortLimit : 0);
    if (way == Way.COPY && parts.bytes() > LARGEST_PULLED)
      parts = parts(buffers, from, LARGEST_PULLED);
    // What is not lent the other side may have taken, in a copy, before it is read.
    boolean awaited = way == Way.STAY && reliable && parts.areIn(multiplexer.ripc());
    Outgoing message = header(Frame.Type.DATA, awaited ? Frame.AWAITED : 0, Frame.Reason.NONE, 0);
    RegisteredBuffer copy = null;
    Ticket ticket;
    try {
      boolean offering = returns.attachTo(message);
      if (way == Way.COPY) {
        copy = multiplexer.lease((int) parts.bytes());
        multiplexer.copied(parts.bytes());
        message.add(parts.copyTo(copy.buffer()), way.kind);
      } else {
        parts.addTo(message, way);
      }
      // Of a copy that is lost the other side tells, or its end.
      if (reliable && way.kind == ItemKind.LONG) message.quiet();
      ticket = send(message, way == Way.RETURN ? returns.request() : null);
      if (offering && ticket != null) returns.sent(message.requestId());
    } finally {
      multiplexer.giveBack(message);
      if (copy != null) copy.release();
    }
    if (ticket == null) return 0;
    if (way == Way.RETURN) returns.dropRequest();
    ++nextSequence;
    credit.sent(parts.bytes());
    habit.spoke();
    sent(way, parts.bytes(), awaited, ticket);
    return parts.bytes();
  }

  private Parts parts(ByteBuffer[] buffers, long from, long size) {
    return new Parts(buffers, from, size, reliable, gift);
  }

  private Way wayOf(Parts parts) {
    return Way.of(
        parts,
        reliable ? shortLimit : 0,
        shortLimit,
        multiplexer.copyLimit(),
        credit.ownWindow() / GIVEN_OF_WINDOW,
        returns.request());
  }

  private void sent(Way way, long bytes, boolean awaited, Ticket ticket) {
    boolean quiet = reliable && way.kind == ItemKind.LONG;
    long read = awaited ? credit.end() : 0;
    Flights.Flight flight = flights.add(bytes, read, way.isWritten, quiet, ticket);
    if (quiet) {
      multiplexer.travelling().settleLater();
    } else if (!Flights.isTaken(ticket)) {
      watch(ticket, flight);
    }
  }

  private void watch(Ticket ticket, Flights.Flight flight) {
    multiplexer.travelling().add(ticket);
    afterwards.whenComplete(ticket, problem -> landed(flight, problem));
  }

  // From the ticket, in the responder thread.
  private void landed(Flights.Flight flight, Throwable problem) {
    if (problem != null) {
      lost(problem);
      return;
    }
    try (AutoLock l = lock.lock()) {
      flight.land();
      wakeWriter();
    }
  }

  private void lost(Throwable problem) {
    try (AutoLock l = lock.lock()) {
      if (closed) return;
    }
    endPoint.fail(new IOException("A part of the stream was not taken", problem));
  }

  /**
   * Finds out what was taken of that of which nobody tells.
   *
   * @return whether there is more of it
   */
  boolean look() {
    Throwable problem;
    boolean more;
    try (AutoLock l = lock.lock()) {
      problem = flights.look();
      credit.acknowledge(flights.read());
      more = problem == null && flights.areLookedFor();
      wakeWriter();
    }
    if (problem != null) lost(problem);
    return more;
  }

  private boolean isLookedFor() {
    try (AutoLock l = lock.lock()) {
      return flights.areLookedFor();
    }
  }

  // ---- Control messages ----

  /** Sends it now, or when there is room. */
  void control(Frame.Type type, int flags, Frame.Reason reason) {
    IOException broken = null;
    try (AutoLock l = lock.lock()) {
      controls.add(type, flags, reason);
      try {
        sendControls();
      } catch (RipcException problem) {
        controls.clear();
        broken = new IOException(problem);
      }
    }
    afterwards.run();
    if (broken != null) endPoint.fail(broken);
  }

  /** Ends the stream. */
  void end() {
    try (AutoLock l = lock.lock()) {
      if (ended || failure != null) return;
      ended = true;
    }
    control(Frame.Type.DATA, Frame.END, Frame.Reason.NONE);
  }

  /** Tells what was consumed if the other side may be waiting for that, or for a sign of life. */
  void credit(Inbound.Progress reader) {
    try (AutoLock l = lock.lock()) {
      if (closed || !credit.isOwed(reader) || controls.have(Frame.Type.CREDIT)) return;
    }
    control(Frame.Type.CREDIT, 0, Frame.Reason.NONE);
  }

  /** The reader waits for more: tells what was consumed if the other side goes on only then. */
  void starving(Inbound.Progress reader) {
    try (AutoLock l = lock.lock()) {
      if (closed || !reader.awaited() || !habit.mayGoOn()) return;
      if (credit.isTold(reader.consumed()) || controls.have(Frame.Type.CREDIT)) return;
    }
    control(Frame.Type.CREDIT, 0, Frame.Reason.NONE);
  }

  private boolean sendControls() {
    for (Controls.Control next = controls.next(); next != null; next = controls.next()) {
      boolean opening = next.isOpening();
      Outgoing message =
          header(
              next.type(),
              next.flags() | Frame.FILLER,
              next.reason(),
              opening ? credit.ownWindow() : 0);
      try {
        if (opening || !reliable) message.add(multiplexer.filler(), ItemKind.LONG);
        Ticket ticket = send(message, null);
        if (ticket == null) return false;
        if (next.isOrdered()) ++nextSequence;
        if (opening || next.type() == Frame.Type.CREDIT) watchLife(ticket, opening);
        if (!opening) multiplexer.travelling().add(ticket);
        controls.sent();
      } finally {
        multiplexer.giveBack(message);
      }
    }
    return true;
  }

  // What the other side holds as long as the connection lives tells of its death; or that it was
  // given back, which an end without a word does too.
  private void watchLife(Ticket ticket, boolean held) {
    if (!held && ticket.isDone() && !ticket.isCompletedExceptionally()) return;
    afterwards.whenComplete(
        ticket,
        problem -> {
          boolean open;
          try (AutoLock l = lock.lock()) {
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
    Outgoing message = multiplexer.outgoing().tag(endPoint.number());
    message.timeout(TICKET_DAYS, TimeUnit.DAYS).add(frame.encode(), ItemKind.SHORT);
    return message;
  }

  /** Null, and an event will come, if there is no room. */
  private Ticket send(Outgoing message, Message replyTo) {
    Ticket ticket = multiplexer.send(endPoint, message, replyTo);
    if (ticket == null) {
      wait.forRoom();
    } else {
      credit.told(telling);
    }
    return ticket;
  }

  /** Its return buffers, with the lock of this. */
  Returns returns() {
    return returns;
  }

  // ---- Events ----

  /** A message of the stream has come. */
  void heard(boolean awaited) {
    try (AutoLock l = lock.lock()) {
      habit.heard(awaited);
    }
  }

  /** How far the other side lets the writer go: {@link Credit#open}. */
  void window(int bytes) {
    try (AutoLock l = lock.lock()) {
      credit.open(bytes);
    }
  }

  /** Whether this is more than the other side has told before. */
  boolean isNews(long bytes) {
    try (AutoLock l = lock.lock()) {
      return credit.isNews(bytes);
    }
  }

  /** The other side has read so much; false if it cannot have. */
  boolean acknowledge(long bytes) {
    try (AutoLock l = lock.lock()) {
      if (!credit.acknowledge(bytes)) return false;
      wakeWriter();
      return true;
    }
  }

  /** The other side may have room again. */
  void room() {
    boolean broken = false;
    RipcException cause = null;
    try (AutoLock l = lock.lock()) {
      wait.roomCame();
      if (failure != null) controls.clear(); // the other side may be gone: nobody looks for it here
      try {
        if (sendControls()) wakeWriter();
      } catch (RipcException problem) {
        controls.clear();
        broken = true;
        cause = problem;
      }
    }
    afterwards.run();
    if (broken) endPoint.fail(new IOException(cause));
  }

  /** The writer waits until {@link RipcEndPoint#writable}, which comes at once if it can go on. */
  void await() {
    try (AutoLock l = lock.lock()) {
      wait.begin();
      wakeWriter();
    }
  }

  private void wakeWriter() {
    if (wait.isOver(failure != null || closed)) endPoint.writable();
  }

  /** Writes fail from now on. */
  void fail(IOException cause) {
    try (AutoLock l = lock.lock()) {
      if (failure == null) failure = cause;
      wakeWriter();
    }
  }

  /**
   * Ends it. What the writer has not got back is withdrawn, and the other side told that the stream
   * broke off; else that it is closed.
   *
   * @param complete whether the other side knows already, because both streams have ended
   */
  void close(boolean complete) {
    List<Ticket> withdrawn;
    Offer given;
    boolean gone;
    boolean wasEnded;
    try (AutoLock l = lock.lock()) {
      if (closed) return;
      closed = true;
      gone = failure != null;
      wasEnded = ended;
      ended = true;
      flights.look();
      withdrawn = flights.takeUnfinished();
      given = returns.end();
    }
    if (given != null) given.close(multiplexer.service());
    for (Ticket each : withdrawn) each.cancel(false);
    if (!withdrawn.isEmpty()) {
      control(Frame.Type.RESET, 0, Frame.Reason.ABORTED);
    } else if (!gone && !(complete && wasEnded)) {
      control(Frame.Type.CLOSE, Frame.END, Frame.Reason.NONE);
    }
  }

  @Override
  public String toString() {
    try (AutoLock l = lock.lock()) {
      return String.format(
          "%s,flights=%s,controls=%d,wait=%s%s%s",
          credit,
          flights,
          controls.size(),
          wait,
          ended ? ",ended" : "",
          failure == null ? "" : ",failed");
    }
  }
}
