// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import org.libripc.internal.AutoLock;
import org.libripc.internal.Chunk;
import org.libripc.internal.Layout.CallRecord;
import org.libripc.internal.Layout.Record;
import org.libripc.internal.RpcRequest;

/**
 * A native request, and the message with its arguments. An endpoint has one object for the requests
 * that it hands to handlers; it is reused, and belongs to the thread that runs the endpoint.
 * Requests that were kept have a lock, and keep the context.
 */
final class IncomingCall extends NativeMessage implements RpcRequest {
  private final Endpoint endpoint;
  private final AutoLock lock; // null: not kept
  private final Message message;
  private ServiceId source;
  private int method;
  private long address; // of the native message
  private long request; // 0: it has ended

  IncomingCall(Endpoint endpoint) {
    super(endpoint.ripc());
    this.endpoint = endpoint;
    lock = null;
    message = new Message(null, true);
  }

  private IncomingCall(IncomingCall from) {
    super(from.ripc);
    endpoint = from.endpoint;
    lock = new AutoLock();
    source = from.source;
    method = from.method;
    address = from.address;
    request = from.request;
    lent = from.lent;
    message = from.message.own(this);
  }

  /** Takes over the request of a record. */
  void load(Chunk records, int at) {
    request = records.block.bytes.getLong(at + CallRecord.REQUEST);
    method = records.block.bytes.getInt(at + CallRecord.CODE);
    int items = at + CallRecord.BYTES;
    address = records.block.bytes.getLong(items + Record.MESSAGE);
    source = endpoint.service().idOfPeer(records.block.bytes.getLong(items + Record.SOURCE));
    message.loadCall(endpoint.service(), records, items, null, this);
  }

  // ---- Its native request, from begin() to done() ----

  private boolean begin() {
    if (lock != null) {
      lock.lock();
    } else if (Thread.currentThread() != endpoint.runner()) {
      throw new IllegalStateException(
          "This request belongs to the thread of its handler: keep() it there for another one.");
    }
    return request != 0;
  }

  private void done() {
    if (lock != null) lock.unlock();
  }

  private long beginOpen() {
    if (!begin()) {
      done();
      throw ended();
    }
    return request;
  }

  private static IllegalStateException ended() {
    return new IllegalStateException(
        "This request has ended: it was answered, dropped, kept as another object, or left by its handler.");
  }

  // Before done().
  private void setEnded() {
    request = 0;
    message.close();
  }

  private void afterEnd() {
    if (lock == null) return;
    ripc.handles().remove(this);
    ripc.guard().leave();
  }

  @Override
  long enter() {
    beginOpen();
    return address;
  }

  @Override
  void leave() {
    done();
  }

  @Override
  void close() {
    end(Status.CLOSED, true);
  }

  // ---- For org.libripc.rpc ----

  @Override
  public Message arguments() {
    if (request == 0) throw ended();
    return message;
  }

  @Override
  public ServiceId source() {
    if (request == 0) throw ended();
    return source;
  }

  @Override
  public int method() {
    if (request == 0) throw ended();
    return method;
  }

  @Override
  public boolean isEnded() {
    return request == 0;
  }

  @Override
  public long timeLeft() {
    long open = beginOpen();
    try {
      return ripc.binding().requestTimeLeft(open);
    } finally {
      done();
    }
  }

  @Override
  public Ticket reply(int code, Outgoing answer) {
    long open = beginOpen();
    Ticket ticket;
    try {
      ticket = endpoint.reply(open, code, answer);
      setEnded();
    } finally {
      done();
    }
    afterEnd();
    endpoint.service().sender().settleFor(ticket);
    return ticket;
  }

  @Override
  public boolean end(Status status, boolean ran) {
    boolean open = begin();
    try {
      if (!open) return false;
      if (ran) {
        ripc.binding().requestDrop(request, status.code());
      } else {
        ripc.binding().requestRefuse(request, status.code());
      }
      setEnded();
    } finally {
      done();
    }
    afterEnd();
    return true;
  }

  @Override
  public RpcRequest keep() {
    if (lock != null) return this;
    beginOpen();
    ripc.enter();
    IncomingCall kept = new IncomingCall(this);
    request = 0;
    ripc.add(kept);
    return kept;
  }
}
