// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.libripc.ItemKind;
import org.libripc.Message;
import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.RipcException;
import org.libripc.Ticket;
import org.libripc.internal.AutoLock;

/**
 * The sending half of a connection: turns buffers into messages, as far as the other side gives
 * credit and has room.
 *
 * <p>Small data is copied, into the message or into separate memory, and is the writer's again at
 * once. Large data is sent in place. It counts as written when the ticket says that the other side
 * has it, so the writer keeps it unchanged until then. Over shared memory no thread is woken to
 * learn this: the next message from the other side shows it, or an occasional check ({@link
 * TicketPoller}).
 *
 * <p>Any thread; everything is guarded by one lock. The event that a writer waits for comes to
 * {@link ByteStream#onWritable}, without the lock.
 */
@SuppressWarnings("try") // locks
final class Outbound {
  /** The most bytes of one message if the receiver needs memory for them. */
  private static final int LARGEST_PULLED = 1 << 20;

  // The other side tells of what it has read of more, for which the writer would not wait.
  private static final int GIVEN_OF_WINDOW = 2;

  // Tickets end when the other side is gone; the idle time-out limits how long it may take to read.
  private static final long TICKET_DAYS = 365;

  private final AutoLock lock = new AutoLock();
  private final ByteStream stream;
  private final Multiplexer multiplexer;
  private final Credit credit;
  private final ReturnBuffers returnBuffers;
  private final InFlight inFlight = new InFlight();
  private final DelayedAck delayedAck = new DelayedAck();
  private final ControlQueue controls;
  private int nextSequence;
  private long announcing; // what the message that is being sent reports as consumed
  private int shortLimit;
  private boolean reliable; // short messages always arrive
  private final WriterWait wait;
  private boolean unsent; // the last flush could not send all
  private boolean ended;
  private boolean closed;
  private IOException failure;
  private ByteBuffer given;
  // Actions to run without the lock: a ticket that has failed calls back at once, and the reader's
  // lock comes before this one.
  private final Queue<Runnable> deferred = new ConcurrentLinkedQueue<>();

  /**
   * @param offers whether a return buffer is offered to the other side, if the options ask for it
   */
  Outbound(ByteStream stream, Multiplexer multiplexer, boolean offers) {
    this.stream = stream;
    this.multiplexer = multiplexer;
    credit = new Credit(multiplexer.options.window());
    returnBuffers = new ReturnBuffers(multiplexer, lock, offers);
    wait = new WriterWait(credit, inFlight);
    controls = new ControlQueue(this, stream, multiplexer);
  }

  /**
   * What the path to the other side can do, before the first byte is sent: {@link
   * Multiplexer#shortLimit}.
   */
  void path(int limit) {
    try (AutoLock l = lock.held()) {
      shortLimit = Math.abs(limit);
      reliable = limit > 0;
    }
  }

  /** With the lock: whether short messages always arrive. */
  boolean isReliable() {
    return reliable;
  }

  /** With the lock: called when a message with a position in the order was sent. */
  void nextSequence() {
    ++nextSequence;
  }

  /**
   * With the lock: makes a ticket call back soon, without the lock; a failed ticket would call back
   * at once.
   */
  void whenComplete(Ticket ticket, Consumer<Throwable> action) {
    deferred.add(() -> ticket.whenComplete((nothing, problem) -> action.accept(problem)));
  }

  boolean isOpen() {
    try (AutoLock l = lock.held()) {
      return !closed;
    }
  }

  /** Whether the calling thread has the lock. */
  boolean isHeld() {
    return lock.isHeldByCurrentThread();
  }

  /** Whether the death of the other side shows only when something is sent to it. */
  boolean needsProbes() {
    try (AutoLock l = lock.held()) {
      return !reliable && !closed;
    }
  }

  // ---- Bytes of the stream ----

  /**
   * The writer promises not to change the bytes of a buffer. If this buffer is written next, the
   * write need not wait for the other side. Its memory, which must be leased from the context, is
   * kept here until that side has taken it. Null: takes the promise back.
   */
  void give(ByteBuffer buffer) {
    try (AutoLock l = lock.held()) {
      given = buffer;
    }
  }

  /**
   * Sends what can be sent now. The buffers' positions move over the bytes that are the writer's
   * again; the caller calls it again with the rest.
   *
   * @param lent whether the writer does not change the bytes until then; else everything that is
   *     sent is copied
   * @return whether all bytes are the writer's again
   */
  boolean flush(ByteBuffer[] buffers, boolean lent) throws IOException {
    try {
      return send(buffers, lent);
    } catch (RipcException problem) {
      IOException broken = new IOException(problem);
      stream.fail(broken);
      throw broken;
    } finally {
      runDeferred();
    }
  }

  private boolean send(ByteBuffer[] buffers, boolean lent) throws IOException {
    try (AutoLock l = lock.held()) {
      if (failure != null) throw failure;
      if (closed || ended && !unsent && inFlight.bytes() == 0)
        throw new IOException("the output was shut down");
      inFlight.advance(buffers);
      long ahead = inFlight.bytes();
      wait.forTicket();
      long left = GatherList.remaining(buffers) - ahead;
      for (long bytes = 1; left > 0 && bytes > 0; left -= bytes) {
        bytes = sendData(buffers, ahead, left, lent);
        ahead += bytes;
      }
      boolean ending = ended && unsent && left == 0;
      unsent = left > 0;
      if (ending) {
        controls.add(Frame.Type.DATA, Frame.END, Frame.Reason.NONE);
        controls.send();
      }
      inFlight.advance(buffers);
      boolean complete = GatherList.remaining(buffers) == 0;
      if (!complete && inFlight.hasQuiet()) multiplexer.poller.add(this);
      return complete;
    }
  }

  /** Sends some of the `left` bytes from `from` on in one message. Returns how many; 0: none. */
  private long sendData(ByteBuffer[] buffers, long from, long left, boolean lent) {
    if (!credit.allows()) {
      wait.forCredit();
      return 0;
    }
    if (inFlight.isFull() || !controls.send()) return 0;
    GatherList parts = parts(buffers, from, reliable ? left : Math.min(left, LARGEST_PULLED));
    SendMode mode = lent ? modeOf(parts) : SendMode.copying(parts, reliable ? shortLimit : 0);
    if (mode == SendMode.COPY && parts.bytes() > LARGEST_PULLED)
      parts = parts(buffers, from, LARGEST_PULLED);
    // The other side may have taken a copy, of bytes that are not lent, before they are read.
    boolean awaited =
        mode == SendMode.BORROW && reliable && parts.areLeasedFrom(multiplexer.ripc());
    Outgoing message =
        header(Frame.Type.DATA, awaited ? Frame.AWAITED : 0, Frame.Reason.NONE, false);
    RegisteredBuffer copy = null;
    Ticket ticket;
    try {
      // The other side keeps a message that offers a buffer until it answers: no write waits for
      // it.
      boolean offering = mode.isWritten && returnBuffers.attachTo(message);
      if (mode == SendMode.COPY) {
        copy = multiplexer.ripc().lease((int) parts.bytes());
        multiplexer.copied.add(parts.bytes());
        message.add(parts.copyTo(copy.buffer()), mode.kind);
      } else {
        parts.addTo(message, mode);
      }
      // The other side, or its end, reports a copy that is lost.
      if (reliable && mode.kind == ItemKind.LONG) message.quiet();
      ticket = send(message, mode == SendMode.RETURN ? returnBuffers.offer() : null);
      if (offering && ticket != null) returnBuffers.sent(message.requestId());
    } finally {
      multiplexer.messages.giveBack(message.clear());
      if (copy != null) copy.release();
    }
    if (ticket == null) return 0;
    if (mode == SendMode.RETURN) returnBuffers.dropOffer();
    nextSequence();
    credit.sent(parts.bytes());
    delayedAck.sent();
    sent(mode, parts.bytes(), awaited, ticket);
    return parts.bytes();
  }

  private GatherList parts(ByteBuffer[] buffers, long from, long size) {
    return new GatherList(buffers, from, size, reliable, given);
  }

  private SendMode modeOf(GatherList parts) {
    return SendMode.of(
        parts,
        reliable ? shortLimit : 0,
        shortLimit,
        multiplexer.options.copyLimit(),
        credit.ownWindow() / GIVEN_OF_WINDOW,
        returnBuffers.offer());
  }

  private void sent(SendMode mode, long bytes, boolean awaited, Ticket ticket) {
    boolean quiet = reliable && mode.kind == ItemKind.LONG;
    long read = awaited ? credit.end() : 0;
    // Looked at once: a ticket that ended between two looks would be neither complete nor watched.
    boolean taken = !quiet && InFlight.isTaken(ticket);
    InFlight.Write write = inFlight.add(bytes, read, mode.isWritten || taken, quiet, ticket);
    if (quiet) {
      multiplexer.unacked.settleLater();
    } else if (!taken) {
      watch(ticket, write);
    }
  }

  private void watch(Ticket ticket, InFlight.Write write) {
    multiplexer.unacked.add(ticket);
    whenComplete(ticket, problem -> landed(write, problem));
  }

  // Called by the ticket, in the responder thread.
  private void landed(InFlight.Write write, Throwable problem) {
    if (problem != null) {
      lost(problem);
      return;
    }
    try (AutoLock l = lock.held()) {
      write.complete();
      wakeWriter();
    }
  }

  private void lost(Throwable problem) {
    if (isOpen()) stream.fail(new IOException("A part of the stream was not taken", problem));
  }

  /**
   * Finds out which quiet messages were taken.
   *
   * @return whether more of them are under way
   */
  boolean poll() {
    Throwable problem;
    boolean more;
    try (AutoLock l = lock.held()) {
      problem = inFlight.poll();
      credit.acknowledge(inFlight.read());
      more = problem == null && inFlight.hasQuiet();
      wakeWriter();
    }
    if (problem != null) lost(problem);
    return more;
  }

  private void runDeferred() {
    for (Runnable next = deferred.poll(); next != null; next = deferred.poll()) next.run();
  }

  // ---- Control messages ----

  /** Sends a control message now, or when there is room. */
  void control(Frame.Type type, int flags, Frame.Reason reason) {
    sendControls(() -> controls.add(type, flags, reason));
  }

  private void sendControls(Runnable before) {
    IOException broken = null;
    try (AutoLock l = lock.held()) {
      before.run();
      controls.send();
      wakeWriter(); // also without room: a close ends its wait
    } catch (RipcException problem) {
      broken = new IOException(problem);
    }
    runDeferred();
    if (broken != null) stream.fail(broken);
  }

  /** Ends the stream, after the write under way. */
  void end() {
    try (AutoLock l = lock.held()) {
      if (ended || failure != null) return;
      ended = true;
      if (unsent) return;
    }
    control(Frame.Type.DATA, Frame.END, Frame.Reason.NONE);
  }

  /**
   * Reports what was consumed if the other side may be waiting for that, or for a sign of life.
   *
   * @param starving whether the reader waits for more
   */
  void credit(Inbound.Progress reader, boolean starving) {
    try (AutoLock l = lock.held()) {
      boolean owed =
          starving
              ? reader.awaited()
                  && !delayedAck.isDelayed()
                  && !credit.isAnnounced(reader.consumed())
              : credit.isOwed(reader);
      if (closed || !owed || controls.has(Frame.Type.CREDIT)) return;
    }
    control(Frame.Type.CREDIT, 0, Frame.Reason.NONE);
  }

  /** Makes a message with the header as its first item. */
  Outgoing header(Frame.Type type, int flags, Frame.Reason reason, boolean opening) {
    announcing = stream.consumed();
    int ownWindow = opening ? credit.ownWindow() : 0;
    Frame frame = new Frame(type, flags, reason, nextSequence, announcing, ownWindow);
    Outgoing message = multiplexer.messages.take().tag(stream.number());
    message.timeout(TICKET_DAYS, TimeUnit.DAYS).add(frame.encode(), ItemKind.SHORT);
    return message;
  }

  /** Returns null if there is no room; then an event will come. */
  Ticket send(Outgoing message, Message replyTo) {
    Ticket ticket = multiplexer.send(stream, message, replyTo);
    if (ticket == null) {
      wait.forRoom();
    } else {
      credit.announced(announcing);
    }
    return ticket;
  }

  /** The return buffers of the stream, guarded by this object's lock. */
  ReturnBuffers returnBuffers() {
    return returnBuffers;
  }

  // ---- Events ----

  /** Called when a message of the stream has come. */
  void heard(boolean awaited) {
    try (AutoLock l = lock.held()) {
      delayedAck.received(awaited);
    }
  }

  /** How far the other side lets the writer go: {@link Credit#open}. */
  void window(int bytes) {
    try (AutoLock l = lock.held()) {
      credit.open(bytes);
    }
  }

  /** Whether this is more than the other side has announced before. */
  boolean isNews(long bytes) {
    try (AutoLock l = lock.held()) {
      return credit.isNews(bytes);
    }
  }

  /** The other side reports that it has read this much; false if that is impossible. */
  boolean acknowledge(long bytes) {
    try (AutoLock l = lock.held()) {
      if (!credit.acknowledge(bytes)) return false;
      wakeWriter();
      return true;
    }
  }

  /** Called when the other side may have room again. */
  void room() {
    sendControls(
        () -> {
          wait.roomCame();
          if (failure != null) controls.clear(); // the other side may be gone: do not look for it
        });
  }

  /** The writer waits until {@link ByteStream#onWritable}, which comes at once if it can go on. */
  void await() {
    try (AutoLock l = lock.held()) {
      wait.begin();
      wakeWriter();
    }
  }

  private void wakeWriter() {
    if (wait.isOver(failure != null || closed)) stream.wakeWriter();
  }

  /** Writes fail from now on. */
  void fail(IOException cause) {
    try (AutoLock l = lock.held()) {
      if (failure == null) failure = cause;
      wakeWriter();
    }
  }

  /**
   * Ends the sending half. Bytes that the writer has not got back are withdrawn. The other side is
   * told that the stream broke off if bytes were withdrawn or not even sent, else that it is
   * closed.
   *
   * @param complete whether the other side knows already, because both streams have ended
   */
  void close(boolean complete) {
    List<Ticket> withdrawn;
    boolean brokenOff;
    boolean gone;
    boolean wasEnded;
    try (AutoLock l = lock.held()) {
      if (closed) return;
      closed = true;
      gone = failure != null;
      wasEnded = ended;
      ended = true;
      inFlight.poll();
      withdrawn = inFlight.takeUnfinished();
      brokenOff = unsent || !withdrawn.isEmpty();
      returnBuffers.end();
    }
    returnBuffers.close();
    for (Ticket each : withdrawn) each.cancel(false);
    if (brokenOff) {
      control(Frame.Type.RESET, 0, Frame.Reason.ABORTED);
    } else if (!gone && !(complete && wasEnded)) {
      control(Frame.Type.CLOSE, Frame.END, Frame.Reason.NONE);
    }
  }

  @Override
  public String toString() {
    try (AutoLock l = lock.held()) {
      return String.format(
          "%s,inFlight=%s,controls=%s,wait=%s%s%s",
          credit,
          inFlight,
          controls,
          wait,
          ended ? ",ended" : "",
          failure == null ? "" : ",failed");
    }
  }
}
