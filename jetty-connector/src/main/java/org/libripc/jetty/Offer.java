// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.ReturnBuffer;
import org.libripc.RipcException;
import org.libripc.Service;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The return buffer into which the other side of a connection may write a part of its stream. It
 * travels with a message of this side, and again when what was written into it has been read.
 *
 * <p>Guarded by its {@link Outbound}, but for {@link #close}.
 */
final class Offer {
  private static final Logger LOG = LoggerFactory.getLogger(Offer.class);

  private final RegisteredBuffer memory;
  private final ReturnBuffer buffer;
  private long request; // with which it travels; 0: none
  private boolean filled; // an answer may lie in it

  /** Takes over the memory. */
  Offer(RegisteredBuffer memory) {
    this.memory = memory;
    buffer = new ReturnBuffer(memory);
  }

  /** Attaches it unless it is in use. */
  boolean attachTo(Outgoing message) {
    if (request != 0 || filled) return false;
    message.attach(buffer);
    return true;
  }

  /** The message has gone. */
  void sent(long requestId) {
    request = requestId;
  }

  /** An answer has come, whether it uses the buffer or not. */
  void answered(long requestId) {
    if (requestId != request) return;
    request = 0;
    filled = true;
  }

  /** And was read. */
  void read() {
    filled = false;
  }

  /** Takes the right to write back, and gives the memory back. May wait for a write to end. */
  void close(Service service) {
    try {
      if (request != 0) service.cancelRequest(request);
    } catch (RipcException problem) {
      LOG.debug("the request was answered at the last moment, or its service has ended", problem);
    } finally {
      memory.release();
    }
  }
}
