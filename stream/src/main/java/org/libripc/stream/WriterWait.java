// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/**
 * What the writer of a connection waits for.
 *
 * <p>Guarded by its {@link Outbound}.
 */
final class WriterWait {
  private enum For {
    NOTHING,
    CREDIT,
    ROOM,
    TICKET
  }

  private final Credit credit;
  private final InFlight inFlight;
  private For reason = For.NOTHING;
  private boolean waits;
  private boolean roomRequested;

  WriterWait(Credit credit, InFlight inFlight) {
    this.credit = credit;
    this.inFlight = inFlight;
  }

  /** The reason that stops the next write unless another one is found. */
  void forTicket() {
    reason = For.TICKET;
  }

  void forCredit() {
    reason = For.CREDIT;
  }

  /** The writer waits for room, which an event will report. */
  void forRoom() {
    reason = For.ROOM;
    roomRequested = true;
  }

  /** Called at that event. */
  void roomCame() {
    roomRequested = false;
  }

  /** Makes the writer wait from now on. */
  void begin() {
    waits = true;
  }

  /** Whether the writer waits and can go on, which ends the wait. */
  boolean isOver(boolean broken) {
    if (!waits || !(broken || canProgress())) return false;
    waits = false;
    return true;
  }

  private boolean canProgress() {
    if (inFlight.isNextComplete()) return true;
    return switch (reason) {
      case NOTHING -> true;
      case CREDIT -> credit.allows();
      case ROOM -> !roomRequested;
      case TICKET -> inFlight.isEmpty(); // the writer has got back what was in the way
    };
  }

  @Override
  public String toString() {
    return waits ? reason.toString() : "-";
  }
}
