// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.libripc.rpc.CallOutcome.DID_NOT_RUN;
import static org.libripc.rpc.CallOutcome.MAY_HAVE_RUN;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.libripc.internal.RpcEndpoint;
import org.libripc.rpc.CallOptions;
import org.libripc.rpc.CallResult;
import org.libripc.rpc.Request;
import org.libripc.rpc.Rpc;
import org.libripc.rpc.RpcCall;
import org.libripc.rpc.RpcStatistics;

/** Calls: their forms, outcomes, deadlines and cancelling. */
class CallsTest extends CallPairTest {
  @Test
  void aFutureAWaitAndAHandlerHaveTheSameEnd() throws Exception {
    serve();
    Outgoing arguments = new Outgoing().add(bytes("one")).add(bytes("")).add(bytes("3"));
    try (CallResult result = caller.callWait(to(), ECHO, arguments)) {
      assertAnswered(7, result, "one", "", "3");
    }
    try (CallResult result = end(caller.call(to(), ECHO, arguments))) {
      assertAnswered(7, result, "one", "", "3");
    }
    AtomicReference<CallResult> ended = new AtomicReference<>();
    caller.callThen(
        to(),
        ECHO,
        arguments,
        result -> {
          assertAnswered(7, result, "one", "", "3");
          ended.set(result);
        });
    assertTrue(eventuallyRunning(() -> ended.get() != null));
    assertThrows(IllegalStateException.class, () -> ended.get().outcome());
  }

  @Test
  void aResultThatIsKeptLastsUntilItIsClosed() throws Exception {
    serve();
    AtomicReference<CallResult> ended = new AtomicReference<>();
    Outgoing arguments = new Outgoing().add(bytes("kept"));
    caller.callThen(to(), ECHO, arguments, result -> ended.set(result.keep()));
    assertTrue(eventuallyRunning(() -> ended.get() != null));
    for (int round = 0; round < 3000; ++round) caller.callWait(to(), ECHO, bytes("other")).close();
    CallResult result = ended.get();
    assertAnswered(7, result.keep(), "kept");
    result.close();
    result.close();
    assertThrows(IllegalStateException.class, () -> result.item(0));
    assertThrows(IllegalStateException.class, result::status);
  }

  @Test
  void aRequestTellsWhoCallsWhat() throws Exception {
    serve();
    RpcCall call = caller.call(to(), KEEP, bytes("x"));
    Request request = takeKeptRunning();
    assertEquals(client.id(), request.source());
    int user = (int) Files.getAttribute(directory, "unix:uid");
    assertEquals(new Peer("", OptionalInt.of(user)), request.peer());
    assertEquals(KEEP, request.method());
    assertEquals(1, request.itemCount());
    assertEquals(1, request.size(0));
    assertEquals(Status.OK, request.status(0));
    assertEquals(ViewKind.SHORT, request.kind(0));
    assertEquals(0, request.returnCount());
    request.reply(3, bytes("y"));
    try (CallResult result = end(call)) {
      assertAnswered(3, result, "y");
    }
  }

  @Test
  void aCallThatNobodyServesDidNotRun() throws Exception {
    serve();
    assertEnded(DID_NOT_RUN, Status.UNSUPPORTED, caller.callWait(to(), 77, bytes("x")));
    assertEnded(
        DID_NOT_RUN, Status.NO_SERVICE, caller.callWait(ServiceId.of(4711), ECHO, bytes("x")));
  }

  @Test
  void aCallEndsAtItsDeadlineAndTheHandlerSeesIt() throws Exception {
    serve();
    RpcCall call = caller.call(to(), KEEP, new Outgoing(), timeout(1000));
    Request request = takeKeptRunning();
    assertEnded(MAY_HAVE_RUN, Status.TIMEOUT, end(call));
    // The request carries the time left, so the handler's deadline is later by the travel time.
    assertTrue(eventuallyRunning(() -> request.timeLeft(TimeUnit.NANOSECONDS) == 0));
    request.reply(bytes("late"));
    assertThrows(
        RipcException.TimedOut.class, () -> caller.call(to(), ECHO, new Outgoing(), timeout(0)));
    assertThrows(
        RipcException.TimedOut.class, () -> caller.call(to(), ECHO, new Outgoing(), timeout(-1)));
  }

  @Test
  void theHandlerKnowsHowMuchTimeIsLeft() throws Exception {
    serve();
    CallOptions none = new CallOptions().timeout(Long.MAX_VALUE, TimeUnit.DAYS);
    RpcCall[] calls = {
      caller.call(to(), KEEP, new Outgoing()), caller.call(to(), KEEP, new Outgoing(), none)
    };
    Request limited = takeKeptRunning();
    Request unlimited = takeKeptRunning();
    long left = limited.timeLeft(TimeUnit.MILLISECONDS);
    assertTrue(left > 0 && left <= 5000, left + " ms");
    assertEquals(Long.MAX_VALUE, unlimited.timeLeft(TimeUnit.SECONDS));
    limited.reply(new Outgoing());
    unlimited.reply(new Outgoing());
    for (RpcCall each : calls) end(each).close();
  }

  @Test
  void aNestedCallGetsNoMoreTimeThanItsParentHasLeft() throws Exception {
    serve();
    RpcCall call = caller.call(to(), KEEP, new Outgoing(), timeout(1000));
    Request parent = takeKeptRunning();
    CallOptions nested = new CallOptions().timeout(1, TimeUnit.HOURS).parent(parent);
    RpcCall inner = caller.call(to(), KEEP, new Outgoing(), nested);
    Request request = takeKeptRunning();
    assertTrue(request.timeLeft(TimeUnit.MILLISECONDS) <= 1000);
    assertEnded(MAY_HAVE_RUN, Status.TIMEOUT, end(call));
    assertEnded(MAY_HAVE_RUN, Status.TIMEOUT, end(inner));
    assertThrows(
        RipcException.TimedOut.class, () -> caller.call(to(), ECHO, new Outgoing(), nested));
    parent.reply(new Outgoing());
    assertThrows(
        IllegalStateException.class, () -> caller.call(to(), ECHO, new Outgoing(), nested));
    request.reply(new Outgoing());
  }

  @Test
  void cancelEndsTheCallAndTheHandlerSeesIt() throws Exception {
    serve();
    ReturnBuffer buffer = new ReturnBuffer(pattern(100, 1));
    RpcCall call = caller.call(to(), KEEP, new Outgoing().attach(buffer));
    Request request = takeKeptRunning();
    assertEquals(1, request.returnCount());
    assertEquals(100, request.returnSize(0));
    assertTrue(buffer.isAttached());
    assertTrue(call.cancel(true));
    assertFalse(buffer.isAttached());
    assertTrue(call.isCancelled());
    assertThrows(CancellationException.class, call::join);
    assertTrue(call.cancel(true));
    assertTrue(eventually(() -> request.timeLeft(TimeUnit.NANOSECONDS) == 0));
    request.reply(new Outgoing().addReturn(bytes("late"), 0));
    caller.callWait(to(), ECHO, bytes("next")).close();
    assertEquals(pattern(100, 1), buffer.buffer());
    assertEquals(1, caller.statistics().mayHaveRun());
  }

  @Test
  void aHandlerIsToldThatItsCallWasCancelled() throws Exception {
    serve();
    AtomicReference<Status> ended = new AtomicReference<>();
    long call = caller.callThen(to(), KEEP, new Outgoing(), result -> ended.set(result.status()));
    takeKeptRunning().drop(Status.OK);
    AtomicReference<Status> cancelled = new AtomicReference<>();
    long other =
        caller.callThen(to(), KEEP, new Outgoing(), result -> cancelled.set(result.status()));
    Request request = takeKeptRunning();
    assertTrue(caller.cancel(other));
    assertFalse(caller.cancel(other));
    assertTrue(eventuallyRunning(() -> ended.get() != null && cancelled.get() != null));
    assertEquals(Status.CANCELLED, ended.get());
    assertEquals(Status.CANCELLED, cancelled.get());
    assertFalse(caller.cancel(call));
    assertFalse(caller.cancel(0));
    request.reply(new Outgoing());
  }

  /** A thread that sleeps in run() learns of a call that another thread has cancelled. */
  @Test
  void aCallIsCancelledWhileAnotherThreadRuns() throws Exception {
    serve();
    Thread runs = thread(caller::serve);
    AtomicReference<Status> cancelled = new AtomicReference<>();
    long call =
        caller.callThen(to(), KEEP, new Outgoing(), result -> cancelled.set(result.status()));
    Request request = takeKept();
    assertTrue(caller.cancel(call));
    assertTrue(eventually(() -> cancelled.get() == Status.CANCELLED));
    request.reply(new Outgoing());
    caller.close();
    runs.join();
  }

  @Test
  void nobodyElseCompletesACall() throws Exception {
    serve();
    RpcCall call = caller.call(to(), ECHO, bytes("x"));
    assertFalse(call.complete(null));
    assertFalse(call.completeExceptionally(new Exception()));
    assertSame(call, call.completeAsync(() -> null, Runnable::run));
    assertFalse(call.isDone());
    assertThrows(UnsupportedOperationException.class, () -> call.obtrudeValue(null));
    assertThrows(UnsupportedOperationException.class, () -> call.obtrudeException(null));
    CompletableFuture<Integer> dependent = call.thenApply(CallResult::code);
    try (CallResult result = end(call)) {
      assertAnswered(7, result, "x");
    }
    assertFalse(call.cancel(true));
    assertEquals(7, dependent.getNow(0));
  }

  @Test
  void callsBeyondTheQueueDoNotBegin() {
    Rpc small = Rpc.of(clientContext.register()).slots(1).queue(2).open();
    List<RpcCall> calls = new ArrayList<>();
    assertThrows(
        RipcException.NoRoom.class,
        () -> {
          for (int count = 0; count < 10; ++count) calls.add(small.call(to(), ECHO, bytes("x")));
        });
    assertEquals(2, calls.size());
    small.close();
    for (RpcCall each : calls) assertEnded(DID_NOT_RUN, Status.CLOSED, each.join());
  }

  @Test
  void severalThreadsWaitForTheirCallsAndRunInTurn() throws Exception {
    serve();
    AtomicInteger answered = new AtomicInteger();
    List<Thread> threads = new ArrayList<>();
    for (int number = 0; number < 4; ++number) {
      String text = "thread " + number;
      threads.add(
          thread(
              () -> {
                for (int round = 0; round < 500; ++round) {
                  try (CallResult result = caller.callWait(to(), ECHO, bytes(text))) {
                    assertAnswered(7, result, text);
                    answered.incrementAndGet();
                  }
                }
              }));
    }
    for (Thread each : threads) each.join();
    assertEquals(2000, answered.get());
    assertEquals(2000, caller.statistics().answered());
  }

  @Test
  void aThreadThatRunsLetsOthersWaitForTheirCalls() throws Exception {
    serve();
    Thread runs = thread(caller::serve);
    for (int round = 0; round < 200; ++round) caller.callWait(to(), ECHO, bytes("x")).close();
    assertEquals(0, caller.run(0, TimeUnit.SECONDS));
    assertEquals(0, caller.run(1, TimeUnit.MILLISECONDS));
    caller.close();
    runs.join();
  }

  @Test
  void theWaitForATurnCountsAsTimeOfTheRun() throws Exception {
    AtomicInteger asked = new AtomicInteger();
    AtomicLong ran = new AtomicLong();
    InvocationHandler busyAtFirst =
        (endpoint, method, arguments) ->
            switch (method.getName()) {
              case "tryTurn" -> asked.incrementAndGet() > 3;
              case "run" -> {
                ran.set((long) arguments[0]);
                yield 0;
              }
              case "close", "isLost" -> false;
              default -> null;
            };
    Class<?>[] types = {RpcEndpoint.class};
    Object busy = Proxy.newProxyInstance(getClass().getClassLoader(), types, busyAtFirst);
    RpcEndpoint.Door.to((service, slots, queue, sessions, events) -> (RpcEndpoint) busy);
    try (Rpc waiting = Rpc.open(client)) {
      assertEquals(0, waiting.run(1, TimeUnit.HOURS));
    } finally {
      RpcEndpoint.Door.to(Endpoint::new);
    }
    long left = ran.get();
    assertTrue(left > 0 && left < TimeUnit.HOURS.toNanos(1), left + " ns");
  }

  @Test
  void anInterruptEndsWaits() throws Exception {
    serve();
    Thread runs =
        thread(() -> assertThrows(InterruptedException.class, () -> caller.run(1, TimeUnit.HOURS)));
    assertTrue(eventually(() -> client.statistics().sleeps() > 0));
    runs.interrupt();
    runs.join();
    Thread waits =
        thread(
            () ->
                assertThrows(
                    InterruptedException.class, () -> caller.callWait(to(), KEEP, new Outgoing())));
    Request request = takeKept();
    waits.interrupt();
    waits.join();
    assertTrue(eventually(() -> request.timeLeft(TimeUnit.NANOSECONDS) == 0));
    assertEquals(1, caller.statistics().mayHaveRun());
    request.reply(new Outgoing());
  }

  @Test
  void theServicesInterruptEndsARun() {
    client.interrupt();
    RipcException ended = assertThrows(RipcException.class, () -> caller.run(1, TimeUnit.HOURS));
    assertEquals(Status.INTERRUPTED, ended.status());
  }

  @Test
  void theServicesInterruptDuringACallIsLeftToTheNextRun() throws Exception {
    client.interrupt();
    assertEnded(
        DID_NOT_RUN, Status.TIMEOUT, caller.callWait(to(), ECHO, new Outgoing(), timeout(50)));
    RipcException ended = assertThrows(RipcException.class, () -> caller.run(1, TimeUnit.HOURS));
    assertEquals(Status.INTERRUPTED, ended.status());
  }

  @Test
  void messagesThatAreNoCallsAreDroppedAndCounted() throws Exception {
    serve();
    client.send(to(), bytes("no call"));
    caller.callWait(to(), ECHO, bytes("x")).close();
    caller.callWait(to(), 77, bytes("x")).close();
    RpcStatistics served = answerer.statistics();
    assertEquals(1, served.dropped());
    assertEquals(1, served.requestsRun());
    assertEquals(1, served.requestsRefused());
    assertTrue(served.sessionsServed() >= 1);
    // Where a message may be lost, a session may be asked for twice.
    if (isShm()) assertEquals(1, served.sessionsServed());
    RpcStatistics called = caller.statistics();
    assertEquals(2, called.calls());
    assertEquals(1, called.answered());
    assertEquals(1, called.didNotRun());
  }
}
