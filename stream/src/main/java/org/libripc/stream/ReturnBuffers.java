// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import org.libripc.Message;
import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.ReturnBuffer;
import org.libripc.RipcException;
import org.libripc.internal.AutoLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The return buffers of a stream. The other side may write part of its bytes into this side's own
 * buffer. The own buffer is offered with a message, and again after the bytes written into it were
 * read. The other side's buffer came with a message that is kept until it is answered.
 *
 * <p>Guarded by the lock of its {@link Outbound}, which methods called from elsewhere take.
 */
@SuppressWarnings("try") // locks
final class ReturnBuffers {
  private static final Logger LOG = LoggerFactory.getLogger(ReturnBuffers.class);

  private final Multiplexer multiplexer;
  private final AutoLock lock;
  private final int size; // of the own buffer; 0: there is none
  private RegisteredBuffer memory;
  private ReturnBuffer own;
  private long request; // the request with which it travels; 0: none
  private boolean filled; // an answer may lie in it
  private Message offer;
  private boolean ended;

  /**
   * @param offers whether to offer the other side a buffer, if the options ask for it
   */
  ReturnBuffers(Multiplexer multiplexer, AutoLock lock, boolean offers) {
    this.multiplexer = multiplexer;
    this.lock = lock;
    size = offers ? multiplexer.options.returnBytes() : 0;
  }

  // ---- The own buffer ----

  /** Attaches the buffer to a message if it is free. */
  boolean attachTo(Outgoing message) {
    if (size == 0 || request != 0 || filled) return false;
    if (memory == null) {
      memory = multiplexer.ripc().lease(size);
      own = new ReturnBuffer(memory);
    }
    message.attach(own);
    return true;
  }

  /** Called when the message was sent. */
  void sent(long requestId) {
    request = requestId;
  }

  /** Called when an answer has come, whether it uses the buffer or not. */
  void answered(long requestId) {
    try (AutoLock l = lock.held()) {
      if (requestId != request) return;
      request = 0;
      filled = true;
    }
  }

  /** Called when the answer was read. */
  void answerRead() {
    try (AutoLock l = lock.held()) {
      filled = false;
    }
  }

  // ---- The other side's buffer ----

  /** Takes over a message with a return buffer, whose bytes were read. */
  void offered(Message message) {
    try (AutoLock l = lock.held()) {
      dropOffer();
      offer = message;
      if (ended) dropOffer();
    }
  }

  /** The message with the buffer to write into; null if there is none. */
  Message offer() {
    return offer;
  }

  void dropOffer() {
    if (offer != null) offer.close();
    offer = null;
  }

  // ---- The end of both ----

  void end() {
    ended = true;
    dropOffer();
  }

  /**
   * Call it after {@link #end}, without the lock: gives the memory back. May wait for a write to
   * end.
   */
  void close() {
    if (memory == null) return;
    try {
      if (request != 0) multiplexer.service.cancelRequest(request);
    } catch (RipcException problem) {
      LOG.debug("the request was answered at the last moment, or its service has ended", problem);
    } finally {
      memory.release();
    }
  }
}
