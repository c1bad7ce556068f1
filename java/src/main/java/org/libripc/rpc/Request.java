// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

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
 * A call that has come: its arguments, and the right to answer it once. A handler without an
 * executor gets one that belongs to its thread and its call. That one is used again, and dropped
 * with {@link Status#CANCELLED} if it is left without an answer. Its {@link #keep} makes one to be
 * answered later, by any thread; handlers with an executor get such a one. One that is kept and
 * then lost is found by the garbage collector, dropped and reported.
 *
 * <p>What is called after its end throws {@link IllegalStateException}.
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

  /** For {@code request}, of which there is one for all that are not kept. */
  Request(RpcRequest request) {
    this.request = request;
  }

  /** One that was kept. */
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

  /** Who that is, as it was proven: {@link Message#peer}. */
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
   * What is left of the caller's time; {@link Long#MAX_VALUE} if there is no limit. 0: it is over,
   * or the caller has cancelled. Nobody awaits the answer then.
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
   * Answers with items and a code that the application gives a meaning, which ends the request. The
   * items may show what is in it. Of the {@link Outgoing} only its items count. Memory is as for
   * {@link org.libripc.Service#send}; the loan of what was borrowed ends with the ticket, which
   * completes while the endpoint runs.
   *
   * <p>It succeeds also if the caller does not wait any more. After an exception the request is as
   * it was.
   *
   * @throws org.libripc.RipcException.NoRoom only with items that are borrowed, of kind {@link
   *     ItemKind#LONG}, or for return buffers: try again later
   * @throws org.libripc.RipcException {@link Status#CLOSED} if the endpoint is gone, and as {@link
   *     org.libripc.Service#send}
   */
  public Ticket reply(int code, Outgoing answer) {
    return request.reply(code, answer);
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
   * Ends it without an answer: its call may have run, and has this status; {@link Status#CANCELLED}
   * for {@link Status#OK}.
   */
  public void drop(Status status) {
    end(status, true);
  }

  /** The same, if nothing was done for it: its call did not run. */
  public void refuse(Status status) {
    end(status, false);
  }

  private void end(Status status, boolean ran) {
    if (!request.end(status, ran)) request.method(); // throws
  }

  /**
   * The same request as one that lasts until it ends, for any thread, one at a time; this object
   * has ended. Of a request that was kept, itself.
   */
  public Request keep() {
    RpcRequest kept = request.keep();
    return kept == request ? this : kept(kept);
  }
}
