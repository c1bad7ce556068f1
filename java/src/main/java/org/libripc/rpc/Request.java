// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import org.libripc.ItemKind;
import org.libripc.Message;
import org.libripc.Outgoing;
import org.libripc.Peer;
import org.libripc.ServiceId;
import org.libripc.Status;
import org.libripc.Ticket;
import org.libripc.internal.Layout;
import org.libripc.internal.Leaks;
import org.libripc.internal.RpcRequest;
import org.libripc.internal.Spares;

/**
 * An incoming call: its arguments, and the right to answer it once. A handler without an executor
 * gets an object that belongs to its thread and its call. That object is reused, and the request is
 * dropped with {@link Status#CANCELLED} if it is left without an answer. {@link #keep} makes one
 * that any thread can answer later; handlers with an executor get one like that. If a kept request
 * is lost, the garbage collector finds it; it is then dropped and reported.
 *
 * <p>Every call after its end throws {@link IllegalStateException}.
 */
public final class Request extends CallItems {
  /** What the garbage collector's net needs to know. */
  private record Net(RpcRequest request, Throwable trace) implements Runnable {
    @Override
    public void run() {
      if (request.end(Status.CANCELLED, true)) Leaks.report("Request", " of an Rpc", trace);
    }
  }

  private static final Spares<Outgoing> SINGLE = new Spares<>(Outgoing::new);

  private final RpcRequest request;

  /** For {@code request}, which all requests that are not kept share. */
  Request(RpcRequest request) {
    this.request = request;
  }

  /** A request that was kept. */
  static Request kept(RpcRequest request) {
    Request kept = new Request(request);
    Leaks.CLEANER.register(kept, new Net(request, Leaks.trace()));
    return kept;
  }

  RpcRequest handle() {
    return request;
  }

  @Override
  Message message() {
    return request.arguments();
  }

  /** The caller. */
  public ServiceId source() {
    return request.source();
  }

  /** The caller's proven identity: {@link Message#peer}. */
  public Peer peer() {
    return message().peer();
  }

  /** The method that is called. */
  public int method() {
    return request.method();
  }

  /** How many return buffers the caller has, for {@link Outgoing#addReturn}. */
  public int returnCount() {
    return message().returnCount();
  }

  /** The room in one of them, in bytes. */
  public long returnSize(int index) {
    return message().returnSize(index);
  }

  /**
   * What is left of the caller's time; {@link Long#MAX_VALUE} if there is no limit. 0: the time is
   * over, or the caller has cancelled, so nobody waits for the answer.
   */
  public long timeLeft(TimeUnit unit) {
    long nanos = request.timeLeft();
    if (nanos == Layout.FOREVER) return Long.MAX_VALUE;
    return unit.convert(nanos < 0 ? Long.MAX_VALUE : nanos, TimeUnit.NANOSECONDS);
  }

  /** Whether it was answered, dropped, or kept as another object. */
  public boolean isEnded() {
    return request.isEnded();
  }

  /**
   * Answers with items and a code whose meaning the application defines. This ends the request. The
   * items may be over the request's own items. Only the items of the {@link Outgoing} are used.
   * Memory is treated as in {@link org.libripc.Service#send}; the loan of borrowed memory ends with
   * the ticket, which completes while the endpoint runs.
   *
   * <p>It succeeds even if the caller no longer waits. After an exception the request is as it was.
   *
   * @throws org.libripc.RipcException.NoRoom only with items that are borrowed, of kind {@link
   *     ItemKind#LONG}, or for return buffers; try again later
   * @throws org.libripc.RipcException {@link Status#CLOSED} if the endpoint is gone, and as {@link
   *     org.libripc.Service#send}
   */
  public Ticket reply(int code, Outgoing answer) {
    try {
      return request.reply(code, answer);
    } finally {
      Reference.reachabilityFence(this); // the collector would drop a lost request
    }
  }

  /** The same with code 0. */
  public Ticket reply(Outgoing answer) {
    return reply(0, answer);
  }

  /** The same with one item. */
  public Ticket reply(int code, ByteBuffer item) {
    Outgoing answer = SINGLE.take();
    try {
      return reply(code, answer.add(item));
    } finally {
      SINGLE.giveBack(answer.clear());
    }
  }

  /** The same with one item and code 0. */
  public Ticket reply(ByteBuffer item) {
    return reply(0, item);
  }

  /**
   * Ends the request without an answer: the caller sees that the call may have run, with this
   * status ({@link Status#CANCELLED} for {@link Status#OK}).
   */
  public void drop(Status status) {
    end(status, true);
  }

  /** The same, if nothing was done for the request: the caller sees that the call did not run. */
  public void refuse(Status status) {
    end(status, false);
  }

  private void end(Status status, boolean ran) {
    try {
      if (!request.end(status, ran)) request.method(); // throws
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Moves the request into an object that lasts until the request ends, for any thread, one at a
   * time; this object has then ended. Returns this if the request was already kept.
   */
  public Request keep() {
    RpcRequest kept = request.keep();
    return kept == request ? this : kept(kept);
  }
}
