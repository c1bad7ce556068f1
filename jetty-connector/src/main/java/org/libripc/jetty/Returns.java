// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import org.eclipse.jetty.util.thread.AutoLock;
import org.libripc.Message;
import org.libripc.Outgoing;

/**
 * The return buffers of a connection: the one that this side offers, and the message that brought
 * one of the other side.
 *
 * <p>Guarded by the lock of its {@link Outbound}, which what comes from elsewhere takes.
 */
@SuppressWarnings("try") // locks
final class Returns {
  private final Multiplexer multiplexer;
  private final AutoLock lock;
  private final boolean offers;
  private boolean ended;
  private Offer offer;
  private Message request;

  /**
   * @param offers whether a return buffer is offered to the other side, if the options ask for it
   */
  Returns(Multiplexer multiplexer, AutoLock lock, boolean offers) {
    this.multiplexer = multiplexer;
    this.lock = lock;
    this.offers = offers && multiplexer.returnBytes() != 0;
  }

  // ---- Of this side ----

  /** Attaches its buffer to a message if there is one that is free. */
  boolean attachTo(Outgoing message) {
    if (!offers) return false;
    if (offer == null) offer = new Offer(multiplexer.lease(multiplexer.returnBytes()));
    return offer.attachTo(message);
  }

  /** The message has gone. */
  void sent(long requestId) {
    offer.sent(requestId);
  }

  /** An answer to it has come. */
  void answered(long requestId) {
    try (AutoLock l = lock.lock()) {
      if (offer != null) offer.answered(requestId);
    }
  }

  /** And was read. */
  void answerRead() {
    try (AutoLock l = lock.lock()) {
      if (offer != null) offer.read();
    }
  }

  // ---- Of the other side ----

  /** A message with a return buffer, whose bytes were read. Takes it over. */
  void offered(Message message) {
    try (AutoLock l = lock.lock()) {
      dropRequest();
      request = message;
      if (ended) dropRequest();
    }
  }

  /** Null if no buffer is to be written. */
  Message request() {
    return request;
  }

  void dropRequest() {
    if (request != null) request.close();
    request = null;
  }

  /**
   * The end of both.
   *
   * @return what is to be closed without the lock; null if nothing is
   */
  Offer end() {
    ended = true;
    dropRequest();
    return offer;
  }
}
