// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.util.List;
import org.libripc.internal.AutoLock;
import org.libripc.internal.LibraryFuture;

/**
 * Stands for a message that was sent; its completion ends the loan of the memory that was {@link
 * Outgoing#borrow}ed for it. Nobody has to keep the ticket: the message travels without it. The
 * ticket completes when the peer has the whole message, or with a {@link RipcException} that says
 * why not. The status is then {@link Status#NO_WINDOW}, {@link Status#WINDOW_TOO_SMALL}, {@link
 * Status#NO_MEMORY}, {@link Status#REFUSED}, {@link Status#LIMIT}, {@link Status#PEER_DEAD}, {@link
 * Status#TIMEOUT}, {@link Status#CLOSED} or {@link Status#CORRUPT}. The ticket of a withdrawn
 * message is {@link #isCancelled}. If nothing of a message travels long, its ticket is complete
 * when the send returns. Until it is complete, a ticket keeps the memory that was borrowed.
 *
 * <p>The ticket of a message that was sent {@link Outgoing#quiet} completes when {@link #poll} or
 * {@link Service#settle} notices.
 *
 * <p>A dependent action without an executor of its own ({@code thenRun}) runs in the thread that
 * completes the ticket, which is mostly the context's responder thread. As in a {@link
 * NotificationHandler}, be short, or use {@code thenRunAsync}.
 *
 * <p>Only the library can complete a ticket: {@link #complete} and similar methods return false or
 * throw.
 */
@SuppressWarnings("try") // locks
public final class Ticket extends LibraryFuture<Void> {
  /** The ticket of all messages without long items. */
  static final Ticket DONE = new Ticket();

  static {
    DONE.finish(0);
  }

  private final AutoLock lock = new AutoLock();
  private final RipcCore ripc;
  private final long user; // 0: a quiet ticket, which no callback completes
  private List<Object> memory;
  // Keeps the service while the message travels, except for quiet tickets, which the service itself
  // holds.
  private Service service;
  private long handle;
  private boolean ended;

  private Ticket() {
    ripc = null;
    user = 0;
  }

  /**
   * @param memory what must stay reachable; {@link CountedMemory} in it is released at the end
   */
  Ticket(Service by, RipcCore ripc, List<Object> memory, boolean quiet) {
    this.ripc = ripc;
    if (!quiet) service = by;
    this.memory = memory;
    user = quiet ? 0 : Callbacks.add(this);
  }

  long user() {
    return user;
  }

  /** Called after the send. The callback may have run before. */
  void sent(long ticketHandle) {
    try (AutoLock held = lock.held()) {
      if (!ended && ripc.guard().tryEnter()) {
        handle = ticketHandle;
        return;
      }
    }
    ripc.binding().ticketRelease(ticketHandle);
    if (user == 0) completed(Status.CLOSED.code()); // the context is closing: nobody will look
  }

  /** Called if the send has failed, or sent everything short. */
  void unused() {
    Callbacks.removeTicket(user);
    dropMemory();
  }

  /** Called by the callback; for a quiet ticket, by the code that found out. */
  void completed(int status) {
    long released;
    try (AutoLock held = lock.held()) {
      if (ended) return;
      ended = true;
      released = handle;
      handle = 0;
    }
    if (released != 0) {
      ripc.binding().ticketRelease(released);
      ripc.guard().leave();
    }
    dropMemory();
    finish(status);
  }

  private void finish(int status) {
    if (status == 0) {
      end(null);
    } else if (status == Status.CANCELLED.code()) {
      super.cancel(false); // the result is the same, whether this or cancel() is first
    } else {
      Status reason = Status.of(status);
      endExceptionally(RipcException.of(reason, reason.text()));
    }
  }

  private void dropMemory() {
    List<Object> dropped = memory;
    memory = null;
    service = null;
    if (dropped != null) CountedMemory.releaseAll(dropped);
  }

  /**
   * Checks whether the peer has taken the message; if so, completes this in the calling thread.
   * Over shared memory it finds out before the responder thread does; on other paths it is the same
   * as {@link #isDone}.
   *
   * @return whether it is complete
   */
  public boolean poll() {
    int status;
    try (AutoLock held = lock.held()) {
      if (handle == 0) return isDone();
      status = ripc.binding().ticketPoll(handle);
    }
    if (Status.of(status) == Status.PENDING) return isDone();
    if (user == 0) {
      completed(status);
    } else {
      finish(status);
    }
    return isDone();
  }

  /**
   * Withdraws the message if the peer has not taken it yet: it is then never delivered, nor are its
   * short items.
   *
   * @param mayInterruptIfRunning has no effect
   * @return true if it was withdrawn; false if it is complete, or the peer holds a lent view of it
   */
  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    try (AutoLock held = lock.held()) {
      if (handle == 0 || Status.of(ripc.binding().ticketCancel(handle)) != Status.CANCELLED)
        return isCancelled();
    }
    if (user == 0) completed(Status.CANCELLED.code());
    return super.cancel(mayInterruptIfRunning);
  }
}
