// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.NavigableMap;
import java.util.TreeMap;
import org.libripc.Message;
import org.libripc.ViewKind;
import org.libripc.internal.AutoLock;

/**
 * The receiving half of a connection: messages in their order, until their bytes were read. The
 * sender lends the bytes of long items. Reading is their only copy, and the sender gets them back
 * when they were read.
 *
 * <p>Any thread; everything is guarded by one lock.
 */
@SuppressWarnings("try") // locks
final class Inbound {
  /** Messages that may be ahead of one that is still on its way. */
  private static final int MOST_EARLY = 4096;

  // A service can hold only a limited number of messages in lent memory. If a connection has this
  // many unread ones, further small ones are copied, so that no connection uses up the share of the
  // others.
  private static final int MOST_LENT = 64;
  private static final int SMALL = 16 << 10;

  /** Receives the messages whose bytes were read. */
  interface Reader {
    /** Takes the message over. Called with the lock held. */
    void finished(Message message);
  }

  /**
   * How far the reader is.
   *
   * @param consumed as {@link #consumed}
   * @param waiting the same for the bytes that have come and were not read yet
   * @param awaited whether the last bytes read belong to a message whose sender waits until it is
   *     read
   */
  record Progress(long consumed, long waiting, boolean awaited) {}

  /** A message, and what it takes of the window. */
  private static final class Part {
    final Frame frame;
    final long cost;
    final boolean lent;
    Message message; // null if there is nothing to read, or a copy of it
    ByteBuffer copy;
    IOException lost; // why a part of it is missing

    Part(Message message, Frame frame) {
      this.message = message;
      this.frame = frame;
      long size = 0;
      boolean elsewhere = message.returnCount() != 0;
      for (int index = 1; index < message.itemCount(); ++index) {
        ViewKind kind = message.kind(index);
        elsewhere |= kind != ViewKind.SHORT;
        if (kind != ViewKind.FAILED) {
          size += message.size(index);
        } else if (!frame.has(Frame.FILLER)) {
          lost = new IOException("A part of the stream was lost: " + message.status(index));
        }
      }
      // A filler uses none of the window, so an end may come even when the window is full.
      cost = size == 0 || frame.has(Frame.FILLER) ? 0 : size + Frame.COST;
      lent = elsewhere;
    }

    void copy() {
      copy = ByteBuffer.allocateDirect((int) (cost - Frame.COST));
      for (int index = 1; index < message.itemCount(); ++index) message.copyTo(index, 0, copy);
      copy.flip();
    }

    void close() {
      if (message != null) message.close();
    }
  }

  private final AutoLock lock = new AutoLock();
  private final Reader reader;
  private final Deque<Part> ready = new ArrayDeque<>();
  private final NavigableMap<Integer, Part> early =
      new TreeMap<>((left, right) -> Integer.signum(left - right)); // numbers wrap around
  private int nextSequence;
  private long received;
  private long receivedEarly;
  private int lent; // number of lent messages here
  private boolean awaited; // the last bytes read were of a message whose sender waits
  private volatile long consumed; // written with the lock held
  // Where the reader is in the first message that is ready.
  private int item = 1;
  private long offset;
  private boolean ended; // no more messages are taken: the stream is at its end
  private IOException failure; // reads fail with it after what is ready
  private boolean closed;

  Inbound(Reader reader) {
    this.reader = reader;
  }

  /**
   * Takes over a message of the stream.
   *
   * @param window how far the sender may be ahead of the reader, before its last message
   * @return false if the sender has broken the protocol; the message is closed then
   */
  boolean accept(Message message, Frame frame, long window) {
    try (AutoLock l = lock.held()) {
      int distance = frame.sequence() - nextSequence;
      if (closed || distance < 0) {
        message.close();
        return true;
      }
      Part part = new Part(message, frame);
      if (distance >= MOST_EARLY
          || early.containsKey(frame.sequence())
          || part.cost > 0 && ahead(part) >= window) {
        message.close();
        return false;
      }
      keep(part);
      early.put(frame.sequence(), part);
      receivedEarly += part.cost;
      for (Part next = early.remove(nextSequence); next != null; ) {
        ++nextSequence;
        receivedEarly -= next.cost;
        take(next);
        next = early.remove(nextSequence);
      }
      return true;
    }
  }

  /** How many messages with lent items a connection holds at most, for a window. */
  static long mostLent(int window) {
    return MOST_LENT
        + window / SMALL
        + 2; // one message may go beyond the window; and the opening message
  }

  private void keep(Part part) {
    if (part.cost == 0) {
      part.close();
      part.message = null;
    } else if (part.lent && lent >= MOST_LENT && part.cost <= SMALL && part.lost == null) {
      part.copy();
      reader.finished(part.message);
      part.message = null;
    } else if (part.lent) {
      ++lent;
    }
  }

  // How far ahead of the reader the sender was after sending the last message that is here, `part`
  // included.
  private long ahead(Part part) {
    Part last = part;
    for (Part each : early.tailMap(part.frame.sequence(), false).descendingMap().values()) {
      if (each.cost == 0) continue;
      last = each;
      break;
    }
    return received - consumed + receivedEarly + part.cost - last.cost;
  }

  private void take(Part part) {
    if (ended || failure != null) {
      drop(part);
      return;
    }
    failure = part.lost;
    if (failure == null && part.cost > 0) {
      received += part.cost;
      ready.add(part);
    } else {
      drop(part);
    }
    if (part.frame.has(Frame.END)) ended = true;
  }

  private void drop(Part part) {
    if (part.message == null) return;
    if (part.lent) --lent;
    part.close();
  }

  /**
   * Copies the bytes that are ready into a buffer, from its position on.
   *
   * @return how many bytes; 0 if there are none now, -1 at the end of the stream
   * @throws IOException why there will be no more
   */
  int read(ByteBuffer to) throws IOException {
    try (AutoLock l = lock.held()) {
      int before = to.position();
      while (to.hasRemaining() && !ready.isEmpty()) {
        awaited = ready.peek().frame.has(Frame.AWAITED);
        if (!readFirst(to)) continue;
        Part read = ready.poll();
        if (read.lent && read.message != null) --lent;
        if (read.message != null) reader.finished(read.message);
        consumed += Frame.COST;
        item = 1;
      }
      int count = to.position() - before;
      consumed += count;
      if (count > 0 || !ready.isEmpty()) return count;
      if (failure != null) throw failure;
      return ended || closed ? -1 : 0;
    }
  }

  /** Reads from the first message that is ready; returns whether it is now read whole. */
  private boolean readFirst(ByteBuffer to) {
    ByteBuffer copy = ready.peek().copy;
    if (copy != null) {
      int count = Math.min(copy.remaining(), to.remaining());
      to.put(copy.slice(copy.position(), count));
      copy.position(copy.position() + count);
      return !copy.hasRemaining();
    }
    Message message = ready.peek().message;
    if (item < message.itemCount()) {
      offset += message.copyTo(item, offset, to);
      if (offset < message.size(item)) return false;
      ++item;
      offset = 0;
    }
    return item == message.itemCount();
  }

  /** Whether a read would not return 0. */
  boolean isReadable() {
    try (AutoLock l = lock.held()) {
      return !ready.isEmpty() || ended || closed || failure != null;
    }
  }

  /** Whether the sender has ended the stream, and everything was read. */
  boolean isAtEnd() {
    try (AutoLock l = lock.held()) {
      return ended && ready.isEmpty();
    }
  }

  /** What was read so far: the bytes, and {@link Frame#COST} for each message. */
  long consumed() {
    return consumed;
  }

  /** How far the reader is. */
  Progress progress() {
    try (AutoLock l = lock.held()) {
      return new Progress(consumed, received - consumed, awaited);
    }
  }

  /** Makes reads fail after the bytes that are ready. */
  void fail(IOException cause) {
    try (AutoLock l = lock.held()) {
      if (failure == null && !ended) failure = cause;
    }
  }

  /** Gives everything back, and accepts nothing from now on. */
  void close() {
    try (AutoLock l = lock.held()) {
      closed = true;
      ready.forEach(Part::close);
      ready.clear();
      early.values().forEach(Part::close);
      early.clear();
      receivedEarly = 0;
    }
  }

  @Override
  public String toString() {
    try (AutoLock l = lock.held()) {
      return String.format(
          "read=%d/%d,ready=%d,early=%d%s%s",
          consumed,
          received,
          ready.size(),
          early.size(),
          ended ? ",ended" : "",
          failure == null ? "" : ",failed");
    }
  }
}
