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
 * The return buffers of a stream. The other side may write a part of its bytes into this side's
 * own. That one travels with a message, and again when what was written into it has been read. The
 * other side's came with a message that is kept until it is answered.
 *
 * <p>Guarded by the lock of its {@link Outbound}, which what comes from elsewhere takes.
 */
@SuppressWarnings("try") // locks
final class ReturnBuffers {
  private static final Logger LOG = LoggerFactory.getLogger(ReturnBuffers.class);

  private final Multiplexer multiplexer;
  private final AutoLock lock;
  private final int size; // of the own one; 0: there is none
  private RegisteredBuffer memory;
  private ReturnBuffer own;
  private long request; // with which it travels; 0: none
  private boolean filled; // an answer may lie in it
  private Message offer;
  private boolean ended;

  /**
   * @param offers whether the other side is offered one, if the options ask for it
   */
  ReturnBuffers(Multiplexer multiplexer, AutoLock lock, boolean offers) {
    this.multiplexer = multiplexer;
    this.lock = lock;
    size = offers ? multiplexer.options.returnBytes() : 0;
  }

  // ---- The own one ----

  /** Attaches it to a message if it is free. */
  boolean attachTo(Outgoing message) {
    if (size == 0 || request != 0 || filled) return false;
    if (memory == null) {
      memory = multiplexer.ripc().lease(size);
      own = new ReturnBuffer(memory);
    }
    message.attach(own);
    return true;
  }

  /** The message has gone. */
  void sent(long requestId) {
    request = requestId;
  }

  /** An answer has come, whether it uses the buffer or not. */
  void answered(long requestId) {
    try (AutoLock l = lock.held()) {
      if (requestId != request) return;
      request = 0;
      filled = true;
    }
  }

  /** And was read. */
  void answerRead() {
    try (AutoLock l = lock.held()) {
      filled = false;
    }
  }

  // ---- The other side's ----

  /** A message with a return buffer, whose bytes were read. Takes it over. */
  void offered(Message message) {
    try (AutoLock l = lock.held()) {
      dropOffer();
      offer = message;
      if (ended) dropOffer();
    }
  }

  /** Null if no buffer is to be written. */
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

  /** After that, without the lock: gives the memory back. May wait for a write to end. */
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
