// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.libripc.Ticket;

/**
 * The bytes of a writer that were sent, in their order, until they are its own again: at once if
 * they were copied, else when the other side has taken them.
 *
 * <p>Guarded by its {@link Outbound}.
 */
final class Flights {
  /** Messages of one connection whose memory may be away at once. */
  private static final int MOST = 4;

  /** One message. */
  static final class Flight {
    private final long bytes;
    private final long read;
    private final Ticket ticket;
    private final boolean quiet; // nobody tells of the ticket
    private boolean landed;

    private Flight(long bytes, long read, boolean written, boolean quiet, Ticket ticket) {
      this.bytes = bytes;
      this.read = read;
      this.ticket = ticket;
      this.quiet = quiet;
      landed = written || !quiet && isTaken(ticket);
    }

    void land() {
      landed = true;
    }
  }

  private final Deque<Flight> flights = new ArrayDeque<>();
  private long read;

  boolean isFull() {
    return flights.size() >= MOST;
  }

  /**
   * Bytes have gone.
   *
   * @param read what the other side will have read when it has taken them; 0: that tells nothing
   * @param written the writer need not wait for them
   * @param quiet nobody tells of the ticket: {@link #look} finds out
   */
  Flight add(long bytes, long read, boolean written, boolean quiet, Ticket ticket) {
    Flight flight = new Flight(bytes, read, written, quiet, ticket);
    flights.add(flight);
    return flight;
  }

  static boolean isTaken(Ticket ticket) {
    return ticket.isDone() && !ticket.isCompletedExceptionally();
  }

  /** How many bytes they are. */
  long bytes() {
    long bytes = 0;
    for (Flight each : flights) bytes += each.bytes;
    return bytes;
  }

  /** Whether {@link #land} would give some back. */
  boolean hasLanded() {
    return !flights.isEmpty() && flights.peek().landed;
  }

  /** Moves the positions of the writer's buffers over what is its own again. */
  void land(ByteBuffer[] buffers) {
    while (hasLanded()) {
      long left = flights.poll().bytes;
      for (ByteBuffer buffer : buffers) {
        int part = (int) Math.min(left, buffer.remaining());
        buffer.position(buffer.position() + part);
        left -= part;
      }
    }
  }

  /** Whether a quiet one is under way. */
  boolean areLookedFor() {
    for (Flight each : flights) if (each.quiet && !each.landed) return true;
    return false;
  }

  /**
   * Finds out which quiet ones were taken, in their order: {@link #read}.
   *
   * @return why one of them never will be; null if none has failed
   */
  Throwable look() {
    for (Flight each : flights) {
      if (each.landed || !each.quiet) continue;
      if (!each.ticket.poll()) return null;
      if (each.ticket.isCompletedExceptionally()) {
        return each.ticket.handle((nothing, problem) -> problem).join();
      }
      each.land();
      read = Math.max(read, each.read);
    }
    return null;
  }

  /** How far the other side has read, as far as its taking of quiet ones tells. */
  long read() {
    return read;
  }

  /** Forgets all; the tickets of those that have not landed. */
  List<Ticket> takeUnfinished() {
    List<Ticket> unfinished = new ArrayList<>();
    for (Flight each : flights) {
      if (!each.landed && !each.ticket.isDone()) unfinished.add(each.ticket);
    }
    flights.clear();
    return unfinished;
  }

  @Override
  public String toString() {
    return Integer.toString(flights.size());
  }
}
