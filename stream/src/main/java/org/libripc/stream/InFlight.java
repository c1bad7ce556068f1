// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.libripc.Ticket;

/**
 * The bytes that a writer has sent, in their order, until they are the writer's again: at once if
 * they were copied, else when the other side has taken them.
 *
 * <p>Guarded by its {@link Outbound}.
 */
final class InFlight {
  /** The most messages of one connection whose memory may be lent at once. */
  private static final int MOST = 4;

  /** One message. */
  static final class Write {
    private final long bytes;
    private final long read;
    private final Ticket ticket;
    private final boolean quiet; // no event reports the ticket
    private boolean complete;

    private Write(long bytes, long read, boolean written, boolean quiet, Ticket ticket) {
      this.bytes = bytes;
      this.read = read;
      this.ticket = ticket;
      this.quiet = quiet;
      complete = written;
    }

    void complete() {
      complete = true;
    }
  }

  private final Deque<Write> writes = new ArrayDeque<>();
  private long read;

  boolean isEmpty() {
    return writes.isEmpty();
  }

  boolean isFull() {
    return writes.size() >= MOST;
  }

  /**
   * Adds bytes that were sent.
   *
   * @param read what the other side will have read when it has taken them; 0: not known
   * @param written the writer need not wait for them
   * @param quiet no event reports the ticket: {@link #poll} finds out
   */
  Write add(long bytes, long read, boolean written, boolean quiet, Ticket ticket) {
    Write write = new Write(bytes, read, written, quiet, ticket);
    writes.add(write);
    return write;
  }

  static boolean isTaken(Ticket ticket) {
    return ticket.isDone() && !ticket.isCompletedExceptionally();
  }

  /** The number of bytes in flight. */
  long bytes() {
    long bytes = 0;
    for (Write each : writes) bytes += each.bytes;
    return bytes;
  }

  /** Whether {@link #advance} would give bytes back. */
  boolean isNextComplete() {
    return !writes.isEmpty() && writes.peek().complete;
  }

  /** Moves the positions of the writer's buffers over the bytes that are the writer's again. */
  void advance(ByteBuffer[] buffers) {
    while (isNextComplete()) {
      long left = writes.poll().bytes;
      for (ByteBuffer buffer : buffers) {
        int part = (int) Math.min(left, buffer.remaining());
        buffer.position(buffer.position() + part);
        left -= part;
      }
    }
  }

  /** Whether a quiet write is under way. */
  boolean hasQuiet() {
    for (Write each : writes) if (each.quiet && !each.complete) return true;
    return false;
  }

  /**
   * Finds out which quiet writes were taken, in their order: {@link #read}.
   *
   * @return why one of them will never be taken; null if none has failed
   */
  Throwable poll() {
    for (Write each : writes) {
      if (each.complete || !each.quiet) continue;
      if (!each.ticket.poll()) return null;
      if (each.ticket.isCompletedExceptionally()) {
        return each.ticket.handle((nothing, problem) -> problem).join();
      }
      each.complete();
      read = Math.max(read, each.read);
    }
    return null;
  }

  /** How far the other side has read, as far as the quiet writes it has taken show. */
  long read() {
    return read;
  }

  /** Forgets all writes. Returns the tickets of those that are not complete. */
  List<Ticket> takeUnfinished() {
    List<Ticket> unfinished = new ArrayList<>();
    for (Write each : writes) {
      if (!each.complete && !each.ticket.isDone()) unfinished.add(each.ticket);
    }
    writes.clear();
    return unfinished;
  }

  @Override
  public String toString() {
    return Integer.toString(writes.size());
  }
}
