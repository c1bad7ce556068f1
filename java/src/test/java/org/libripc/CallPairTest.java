// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.libripc.rpc.CallOptions;
import org.libripc.rpc.CallOutcome;
import org.libripc.rpc.CallResult;
import org.libripc.rpc.Request;
import org.libripc.rpc.Rpc;
import org.libripc.rpc.RpcCall;

/** A pair whose client calls its server. A thread runs the server. */
abstract class CallPairTest extends PairTest {
  /** Answers with its arguments and code 7. */
  static final int ECHO = 1;

  /** Keeps the request for the test. */
  static final int KEEP = 2;

  /** Left to the test class. */
  static final int OWN = 3;

  final BlockingQueue<Request> kept = new LinkedBlockingQueue<>();
  Rpc caller;
  Rpc answerer;
  private Thread serving;

  @BeforeEach
  void openCalls() {
    caller = Rpc.open(client);
    answerer = Rpc.open(server);
    answerer.on(ECHO, CallPairTest::echo).on(KEEP, request -> kept.add(request.keep()));
  }

  /** Starts to serve, after the test has added its handlers. */
  void serve() {
    serving = thread(answerer::serve);
  }

  @AfterEach
  void closeCalls() throws InterruptedException {
    caller.close();
    answerer.close();
    if (serving != null) serving.join();
    for (Request each : kept) if (!each.isEnded()) each.drop(Status.CANCELLED);
  }

  static void echo(Request request) {
    Outgoing answer = new Outgoing();
    for (int index = 0; index < request.itemCount(); ++index) answer.add(request.item(index));
    request.reply(7, answer);
  }

  ServiceId to() {
    return server.id();
  }

  static CallOptions timeout(long milliseconds) {
    return new CallOptions().timeout(milliseconds, TimeUnit.MILLISECONDS);
  }

  Request takeKept() throws InterruptedException {
    Request request = kept.poll(LIMIT, TimeUnit.SECONDS);
    assertTrue(request != null, "a request came");
    return request;
  }

  /** Takes a kept request, and runs the client meanwhile. */
  Request takeKeptRunning() throws InterruptedException {
    assertTrue(eventuallyRunning(() -> !kept.isEmpty()));
    return takeKept();
  }

  /** Runs the client until the condition holds, or the time is over. */
  boolean eventuallyRunning(java.util.function.BooleanSupplier condition)
      throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT);
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > end) return false;
      caller.run(1, TimeUnit.MILLISECONDS);
    }
    return true;
  }

  /** Runs the client until the call has ended. */
  CallResult end(RpcCall call) throws InterruptedException, ExecutionException, TimeoutException {
    assertTrue(eventuallyRunning(call::isDone));
    return call.get(0, TimeUnit.SECONDS);
  }

  static void assertEnded(CallOutcome outcome, Status status, CallResult result) {
    try (result) {
      assertEquals(outcome + " " + status, result.outcome() + " " + result.status());
      assertEquals(0, result.itemCount());
    }
  }

  /** Leaves the result open. */
  static void assertAnswered(int code, CallResult result, String... items) {
    assertEquals(CallOutcome.ANSWERED, result.outcome(), result::toString);
    assertEquals(Status.OK, result.status());
    assertEquals(code, result.code());
    assertEquals(items.length, result.itemCount());
    for (int index = 0; index < items.length; ++index)
      assertEquals(items[index], text(result.item(index)));
  }
}
