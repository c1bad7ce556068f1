// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.libripc.rpc.CallOutcome.DID_NOT_RUN;
import static org.libripc.rpc.CallOutcome.MAY_HAVE_RUN;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.libripc.rpc.CallResult;
import org.libripc.rpc.Request;
import org.libripc.rpc.RequestHandler;
import org.libripc.rpc.Rpc;
import org.libripc.rpc.RpcCall;

/** Calls: handlers, and what ends a request. */
class CallHandlersTest extends CallPairTest {
  private CallResult callOwn() throws InterruptedException {
    return caller.callWait(to(), OWN, bytes("own"));
  }

  private void assertEnds(Status status, RequestHandler handler) throws InterruptedException {
    answerer.on(OWN, handler);
    serve();
    assertEnded(MAY_HAVE_RUN, status, callOwn());
    try (CallResult next = caller.callWait(to(), ECHO, bytes("next"))) {
      assertAnswered(7, next, "next");
    }
  }

  @Test
  void oneThatLeavesItsRequestDropsIt() throws Exception {
    assertEnds(Status.CANCELLED, request -> {});
  }

  @Test
  void oneThatDropsItsRequestSaysWhy() throws Exception {
    assertEnds(Status.LIMIT, request -> request.drop(Status.LIMIT));
  }

  @Test
  void theResultSaysWhetherToCallAgain() throws Exception {
    answerer.on(OWN, request -> request.drop(Status.PEER_DEAD));
    serve();
    try (CallResult result = callOwn()) {
      assertTrue(result.text().contains("only if running twice does no harm"), result::text);
      assertFalse(result.text().contains("send again"), result::text);
      assertTrue(result.toString().contains(result.text()), result::toString);
      IllegalStateException none =
          assertThrows(IllegalStateException.class, () -> result.item(0).remaining());
      assertTrue(none.getMessage().contains(result.text()), none::getMessage);
    }
    try (CallResult result = caller.callWait(to(), 77, bytes("x"))) {
      assertTrue(result.text().contains("safe to repeat"), result::text);
    }
  }

  @Test
  void oneThatRefusesItsRequestDidNotRun() throws Exception {
    answerer.on(OWN, request -> request.refuse(Status.PERMISSION));
    serve();
    assertEnded(DID_NOT_RUN, Status.PERMISSION, callOwn());
    assertEquals(0, answerer.statistics().requestsRun());
    assertEquals(1, answerer.statistics().requestsRefused());
    assertEquals(0, answerer.statistics().requestsExpired());
  }

  @Test
  void oneThatThrowsDropsItsRequest() throws Exception {
    AtomicReference<Throwable> uncaught = new AtomicReference<>();
    answerer.on(
        OWN,
        request -> {
          Thread.currentThread()
              .setUncaughtExceptionHandler((thread, thrown) -> uncaught.set(thrown));
          throw new IllegalArgumentException("as it was meant");
        });
    serve();
    assertEnded(MAY_HAVE_RUN, Status.CANCELLED, callOwn());
    assertTrue(eventually(() -> uncaught.get() instanceof IllegalArgumentException));
    try (CallResult next = caller.callWait(to(), ECHO, bytes("next"))) {
      assertAnswered(7, next, "next");
    }
  }

  @Test
  void aThrowingUncaughtExceptionHandlerIsIgnored() throws Exception {
    answerer.on(
        OWN,
        request -> {
          throw new IllegalArgumentException("as it was meant");
        });
    RpcCall call = caller.call(to(), OWN, bytes("own"));
    Thread thread = Thread.currentThread();
    thread.setUncaughtExceptionHandler(
        (failed, thrown) -> {
          throw new IllegalStateException(thrown);
        });
    try {
      while (!call.isDone()) {
        answerer.run(0, TimeUnit.SECONDS);
        caller.run(0, TimeUnit.SECONDS);
      }
    } finally {
      thread.setUncaughtExceptionHandler(null);
    }
    assertEnded(MAY_HAVE_RUN, Status.CANCELLED, call.join());
  }

  @Test
  void oneThatClosesTheContextLosesNothingThatHasCome() throws Exception {
    answerer
        .on(OWN, request -> serverContext.close())
        .on(4, command -> {}, request -> request.reply(bytes("late")));
    caller.on(OWN, request -> request.drop(Status.LIMIT));
    // These open the sessions.
    RpcCall first = caller.call(to(), ECHO, bytes("first"));
    RpcCall back = answerer.call(client.id(), ECHO, bytes("first"));
    while (!first.isDone() || !back.isDone()) {
      answerer.run(0, TimeUnit.SECONDS);
      caller.run(0, TimeUnit.SECONDS);
    }
    RpcCall closing = caller.call(to(), OWN, bytes("own"));
    RpcCall late = caller.call(to(), 4, bytes("late"));
    RpcCall lost = answerer.call(client.id(), OWN, bytes("own"));
    while (caller.statistics().requestsRun() == 0) caller.run(0, TimeUnit.SECONDS);
    answerer.run(LIMIT, TimeUnit.SECONDS);
    while (!lost.isDone()) Thread.onSpinWait();
    end(closing).close();
    end(late).close();
  }

  @Test
  void oneThatFailsDropsItsRequestWithThatStatus() throws Exception {
    answerer.on(
        OWN,
        request -> {
          Thread.currentThread().setUncaughtExceptionHandler((thread, thrown) -> {});
          clientContext.service().queueMessages(17).register();
        });
    serve();
    assertEnded(MAY_HAVE_RUN, Status.INVALID_ARGUMENT, callOwn());
  }

  @Test
  void aRequestEndsOnce() throws Exception {
    AtomicReference<Throwable> wrong = new AtomicReference<>();
    answerer.on(
        OWN,
        request -> {
          request.reply(1, bytes("once"));
          try {
            assertHasEnded(request);
          } catch (Throwable thrown) {
            wrong.set(thrown);
          }
        });
    serve();
    try (CallResult result = callOwn()) {
      assertAnswered(1, result, "once");
    }
    if (wrong.get() != null) throw new AssertionError(wrong.get());
    RpcCall call = caller.call(to(), KEEP, bytes("kept"));
    Request kept = takeKeptRunning();
    assertSame(kept, kept.keep());
    kept.reply(2, bytes("twice"));
    assertHasEnded(kept);
    try (CallResult result = end(call)) {
      assertAnswered(2, result, "twice");
    }
  }

  private static void assertHasEnded(Request request) {
    assertTrue(request.isEnded());
    List<Executable> calls =
        List.of(
            () -> request.reply(bytes("again")),
            () -> request.reply(new Outgoing().add(pattern(100_000, 1))),
            () -> request.drop(Status.OK),
            () -> request.refuse(Status.OK),
            () -> request.timeLeft(TimeUnit.SECONDS),
            () -> request.item(0),
            () -> request.copyTo(0, 0, ByteBuffer.allocate(1)),
            () -> request.borrow(0),
            request::itemCount,
            request::source,
            request::method,
            request::returnCount);
    for (Executable each : calls) assertThrows(IllegalStateException.class, each);
  }

  @Test
  void aRequestThatIsNotKeptBelongsToItsHandler() throws Exception {
    AtomicReference<Request> shown = new AtomicReference<>();
    AtomicReference<Throwable> wrong = new AtomicReference<>();
    answerer.on(
        OWN,
        request -> {
          shown.set(request);
          Thread other =
              new Thread(
                  () -> {
                    try {
                      assertThrows(IllegalStateException.class, () -> request.reply(bytes("x")));
                      assertThrows(IllegalStateException.class, () -> request.drop(Status.OK));
                      assertThrows(IllegalStateException.class, request::keep);
                      assertThrows(
                          IllegalStateException.class, () -> request.timeLeft(TimeUnit.DAYS));
                    } catch (Throwable thrown) {
                      wrong.set(thrown);
                    }
                  });
          other.start();
          other.join();
          kept.add(request.keep());
          assertHasEnded(request);
        });
    serve();
    RpcCall call = caller.call(to(), OWN, bytes("own"));
    Request request = takeKeptRunning();
    if (wrong.get() != null) throw new AssertionError(wrong.get());
    assertThrows(IllegalStateException.class, () -> shown.get().reply(bytes("x")));
    assertFalse(request.isEnded());
    assertEquals("own", text(request.item(0)));
    request.reply(new Outgoing().add(request.item(0)));
    try (CallResult result = end(call)) {
      assertAnswered(0, result, "own");
    }
  }

  @Test
  void anAnswerThatAnotherThreadUsesKeepsNobodyFromClosing() throws Exception {
    AtomicReference<Throwable> refusal = new AtomicReference<>();
    Outgoing answer = new Outgoing().borrow(pattern(100_000, 1));
    answer.begin(); // as a send in another thread does
    answerer.on(
        OWN,
        request -> {
          try {
            request.reply(answer);
          } catch (IllegalStateException thrown) {
            refusal.set(thrown);
          }
          request.reply(bytes("still open"));
        });
    serve();
    try (CallResult result = callOwn()) {
      assertAnswered(0, result, "still open");
    }
    assertTrue(refusal.get() != null);
    Thread closer = thread(answerer::close);
    closer.join(TimeUnit.SECONDS.toMillis(LIMIT));
    assertFalse(closer.isAlive(), "it waits on");
  }

  @Test
  void forbiddenCallsOfAHandlerThrow() throws Exception {
    AtomicReference<Throwable> wrong = new AtomicReference<>();
    answerer.on(
        OWN,
        request -> {
          try {
            assertThrows(
                IllegalStateException.class, () -> answerer.callWait(to(), ECHO, bytes("x")));
            assertThrows(IllegalStateException.class, () -> answerer.run(0, TimeUnit.SECONDS));
            assertThrows(IllegalStateException.class, answerer::serve);
            assertThrows(
                IllegalArgumentException.class,
                () ->
                    request.reply(
                        new Outgoing().attach(new ReturnBuffer(ByteBuffer.allocateDirect(1)))));
            Outgoing many = new Outgoing();
            for (int count = 0; count < 64; ++count) many.add(bytes("x"));
            assertThrows(RipcException.class, () -> request.reply(many));
            answerer.on(99, CallPairTest::echo);
          } catch (Throwable thrown) {
            wrong.set(thrown);
          }
          request.reply(bytes("still open"));
        });
    serve();
    try (CallResult result = callOwn()) {
      assertAnswered(0, result, "still open");
    }
    if (wrong.get() != null) throw new AssertionError(wrong.get());
    try (CallResult result = caller.callWait(to(), 99, bytes("added"))) {
      assertAnswered(7, result, "added");
    }
  }

  @Test
  void handlersAreAddedOnceAndBeforeAnotherThreadRuns() throws Exception {
    RipcException twice =
        assertThrows(RipcException.class, () -> answerer.on(ECHO, CallPairTest::echo));
    assertEquals(Status.INVALID_ARGUMENT, twice.status());
    assertThrows(NullPointerException.class, () -> answerer.on(OWN, null));
    assertThrows(NullPointerException.class, () -> answerer.on(OWN, null, CallPairTest::echo));
    serve();
    assertTrue(eventually(() -> server.statistics().sleeps() > 0));
    assertThrows(IllegalStateException.class, () -> answerer.on(OWN, CallPairTest::echo));
  }

  @Test
  void anExecutorRunsHandlersThatWait() throws Exception {
    ExecutorService executor = Executors.newFixedThreadPool(2);
    CountDownLatch release = new CountDownLatch(1);
    AtomicReference<Thread> runner = new AtomicReference<>();
    answerer.on(
        OWN,
        executor,
        request -> {
          runner.set(Thread.currentThread());
          release.await();
          // A nested call, to itself, while another thread runs the endpoint.
          try (CallResult nested = answerer.callWait(to(), ECHO, request.item(0))) {
            request.reply(5, nested.item(0));
          }
        });
    Thread dispatcher = thread(answerer::serve);
    RpcCall call = caller.call(to(), OWN, bytes("waits"));
    assertTrue(eventuallyRunning(() -> runner.get() != null));
    assertNotEquals(dispatcher, runner.get());
    try (CallResult meanwhile = caller.callWait(to(), ECHO, bytes("meanwhile"))) {
      assertAnswered(7, meanwhile, "meanwhile");
    }
    release.countDown();
    try (CallResult result = end(call)) {
      assertAnswered(5, result, "waits");
    }
    answerer.close();
    dispatcher.join();
    executor.shutdown();
  }

  @Test
  void aCallThatAnExecutorRejectsDidNotRun() throws Exception {
    answerer.on(
        OWN,
        task -> {
          throw new RejectedExecutionException("as it was meant");
        },
        CallPairTest::echo);
    serve();
    assertEnded(DID_NOT_RUN, Status.AGAIN, callOwn());
    assertEquals(1, answerer.statistics().requestsRefused());
    assertEquals(0, answerer.statistics().requestsRun());
  }

  @Test
  void anExpiredRequestDoesNotStart() throws Exception {
    CompletableFuture<Runnable> task = new CompletableFuture<>();
    AtomicLong arrived = new AtomicLong();
    answerer.on(
        OWN,
        arrival -> {
          arrived.set(System.nanoTime());
          task.complete(arrival);
        },
        request -> {
          throw new AssertionError("it has started");
        });
    serve();
    assertEnded(
        MAY_HAVE_RUN, Status.TIMEOUT, caller.callWait(to(), OWN, new Outgoing(), timeout(1000)));
    Runnable late = task.get(LIMIT, TimeUnit.SECONDS);
    // The server counts the remaining time from the request's arrival.
    long end = arrived.get() + TimeUnit.MILLISECONDS.toNanos(1001);
    assertTrue(eventuallyRunning(() -> System.nanoTime() > end));
    late.run();
    assertEquals(1, answerer.statistics().requestsExpired());
    assertEquals(0, answerer.statistics().requestsRun());
  }

  /** The first request uses up the time of those that have come with it. */
  @Test
  void aRequestThatExpiresBehindAnotherDoesNotStart() throws Exception {
    int[] runs = {0};
    answerer.on(
        OWN,
        request -> {
          ++runs[0];
          long left = request.timeLeft(TimeUnit.NANOSECONDS);
          long end = System.nanoTime() + left + TimeUnit.MILLISECONDS.toNanos(10);
          while (System.nanoTime() < end) Thread.onSpinWait();
          request.reply(bytes("late"));
        });
    // One call opens the session, then two wait together.
    RpcCall first = caller.call(to(), ECHO, bytes("first"));
    while (!first.isDone()) {
      answerer.run(0, TimeUnit.SECONDS);
      caller.run(0, TimeUnit.SECONDS);
    }
    first.join().close();
    RpcCall one = caller.call(to(), OWN, new Outgoing(), timeout(50));
    RpcCall two = caller.call(to(), OWN, new Outgoing(), timeout(50));
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT);
    while (runs[0] == 0 && System.nanoTime() < end) answerer.run(1, TimeUnit.MILLISECONDS);
    while (answerer.run(10, TimeUnit.MILLISECONDS) != 0) {}
    for (RpcCall each : List.of(one, two)) end(each).close();
    // Over a network the two may come one by one.
    assertTrue(isShm() ? runs[0] == 1 : runs[0] >= 1, runs[0] + " runs");
    if (runs[0] == 1) assertEquals(1, answerer.statistics().requestsExpired());
  }

  @Test
  void oneOfAGroupAnswers() throws Exception {
    ServiceId group = ServiceId.ofGroup(4712);
    server.join(group);
    serve();
    try (CallResult result =
        caller.callWait(
            group, ECHO, new Outgoing().add(bytes("any")), timeout(20_000).idempotent(true))) {
      assertAnswered(7, result, "any");
    }
  }

  @Test
  void eachMethodIsCounted() throws Exception {
    serve();
    for (int count = 0; count < 3; ++count) caller.callWait(to(), ECHO, bytes("x")).close();
    caller.callWait(to(), 77, bytes("x")).close();
    var called = caller.methods();
    assertEquals(List.of(ECHO, 77), called.stream().map(each -> each.method()).toList());
    assertEquals(3, called.get(0).calls());
    assertEquals(3, called.get(0).answered());
    assertEquals(java.util.Map.of(Status.OK, 3L), called.get(0).statuses());
    assertEquals(3, called.get(0).callTime().count());
    assertTrue(called.get(0).callTime().minimum() > 0);
    assertTrue(called.get(0).callTime().p50() <= called.get(0).callTime().maximum());
    assertEquals(java.util.Map.of(Status.UNSUPPORTED, 1L), called.get(1).statuses());
    assertEquals(1, called.get(1).didNotRun());
    var served = answerer.methods();
    assertEquals(List.of(ECHO, KEEP), served.stream().map(each -> each.method()).toList());
    assertEquals(3, served.get(0).requestsRun());
    assertEquals(3, served.get(0).requestTime().count());
  }

  @Test
  void anEndpointIsTheOnlyReceiver() throws Exception {
    assertThrows(IllegalStateException.class, () -> Rpc.open(client));
    assertThrows(IllegalStateException.class, () -> client.poll());
    assertThrows(IllegalStateException.class, () -> client.receive(1, TimeUnit.SECONDS));
    Service other = clientContext.register();
    Thread receiver = thread(() -> assertThrows(RipcException.Closed.class, other::receive));
    assertTrue(eventually(() -> other.statistics().sleeps() > 0));
    assertThrows(IllegalStateException.class, () -> Rpc.open(other));
    other.close();
    receiver.join();
    assertThrows(RipcException.Closed.class, () -> Rpc.open(other));
  }

  @Test
  void badOptionsAreRefused() {
    Service other = clientContext.register();
    assertThrows(IllegalArgumentException.class, () -> Rpc.of(other).slots(0));
    assertThrows(IllegalArgumentException.class, () -> Rpc.of(other).queue(-1));
    assertThrows(IllegalArgumentException.class, () -> Rpc.of(other).maxSessions(0));
    for (int slots : new int[] {3, 512}) {
      RipcException refused =
          assertThrows(RipcException.class, () -> Rpc.of(other).slots(slots).open());
      assertEquals(Status.INVALID_ARGUMENT, refused.status());
    }
    Rpc.of(other).slots(1).queue(1).maxSessions(1).open().close();
    assertThrows(NullPointerException.class, () -> Rpc.open(null));
    Outgoing many = new Outgoing();
    for (int count = 0; count < 64; ++count) many.add(bytes("x"));
    assertThrows(RipcException.class, () -> caller.call(to(), ECHO, many));
    assertThrows(NullPointerException.class, () -> caller.call(null, ECHO, bytes("x")));
    assertThrows(NullPointerException.class, () -> caller.call(to(), ECHO, (Outgoing) null));
    assertThrows(
        NullPointerException.class, () -> caller.callThen(to(), ECHO, new Outgoing(), null));
  }
}
