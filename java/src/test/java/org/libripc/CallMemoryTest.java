// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.libripc.rpc.CallOutcome.DID_NOT_RUN;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.libripc.internal.Leaks;
import org.libripc.rpc.CallHandler;
import org.libripc.rpc.CallOutcome;
import org.libripc.rpc.CallResult;
import org.libripc.rpc.Request;
import org.libripc.rpc.Rpc;
import org.libripc.rpc.RpcCall;

/** Calls: long items, return buffers, the end of endpoints, and what is lost. */
class CallMemoryTest extends CallPairTest {
  private static final int LARGE = 1 << 20;

  private static ByteBuffer heap(ByteBuffer of) {
    return ByteBuffer.allocate(of.remaining()).put(of.duplicate()).flip();
  }

  @Test
  void itemsOfAnySizeTravelAndAreTheCallersAtOnce() throws Exception {
    serve();
    ByteBuffer expected = pattern(LARGE, 1);
    // The first call waits for a session, the others are sent at once. Arguments are on the heap or
    // in a direct buffer.
    for (int round = 0; round < 4; ++round) {
      ByteBuffer argument = round % 2 == 0 ? heap(expected) : pattern(LARGE, 1);
      RpcCall call = caller.call(to(), ECHO, new Outgoing().add(argument).add(bytes("tail")));
      for (int at = 0; at < LARGE; at += 1000) argument.put(at, (byte) 1);
      try (CallResult result = end(call)) {
        assertEquals(expected, result.item(0));
        assertEquals(expected, result.borrow(0));
        ByteBuffer copy = ByteBuffer.allocate(100);
        assertEquals(100, result.copyTo(0, 5000, copy));
        assertEquals(expected.slice(5000, 100), copy.flip());
        assertEquals("tail", text(result.item(1)));
      }
    }
  }

  @Test
  void aShortItemThatIsLargeNeedsNoHandle() throws Exception {
    serve();
    for (int size : new int[] {1000, 5000, 20_000}) {
      try (CallResult result = caller.callWait(to(), ECHO, pattern(size, size))) {
        assertEquals(pattern(size, size), result.item(0));
      }
    }
  }

  @Test
  void borrowedMemoryIsKeptUntilTheServerLetsGo() throws Exception {
    serve();
    RegisteredBuffer lease = clientContext.lease(LARGE);
    lease.buffer().put(pattern(LARGE, 2));
    int before = Callbacks.waiting();
    RpcCall call = caller.call(to(), KEEP, new Outgoing().borrow(lease));
    Request request = takeKeptRunning();
    lease.release();
    assertEquals(before + 1, Callbacks.waiting());
    assertEquals(pattern(LARGE, 2), request.item(0));
    assertEquals(ViewKind.LENT, request.kind(0));
    Ticket answered = request.reply(new Outgoing().add(request.borrow(0)));
    try (CallResult result = end(call)) {
      assertEquals(pattern(LARGE, 2), result.item(0));
    }
    assertTrue(eventuallyRunning(() -> Callbacks.waiting() == before));
    answered.get(LIMIT, TimeUnit.SECONDS);
  }

  @Test
  void aCallThatDoesNotBeginFreesBorrowedMemory() {
    RegisteredBuffer lease = clientContext.lease(LARGE);
    int waiting = Callbacks.waiting();
    Outgoing arguments = new Outgoing().borrow(lease);
    ReturnBuffer buffer = new ReturnBuffer(ByteBuffer.allocateDirect(10));
    arguments.attach(buffer);
    for (int count = 0; count < 63; ++count) arguments.add(bytes("x"));
    assertThrows(RipcException.class, () -> caller.call(to(), ECHO, arguments));
    caller.close();
    assertThrows(RipcException.Closed.class, () -> caller.call(to(), ECHO, arguments));
    assertFalse(buffer.isAttached());
    assertEquals(waiting, Callbacks.waiting());
    lease.release();
    assertFalse(lease.isInUse());
  }

  @Test
  void aCopiedAnswerOfAnySizeWaitsForRoom() throws Exception {
    serve();
    RpcCall call = caller.call(to(), KEEP, new Outgoing());
    Request request = takeKeptRunning();
    while (server.trySend(client.id(), new Outgoing()) != null) {}
    request.reply(new Outgoing().add(heap(pattern(LARGE, 6))));
    try (CallResult result = end(call)) {
      assertEquals(pattern(LARGE, 6), result.item(0));
    }
  }

  @Test
  void anAnswerLandsInReturnBuffers() throws Exception {
    ByteBuffer[] memory = {ByteBuffer.allocateDirect(LARGE), ByteBuffer.allocateDirect(4)};
    ReturnBuffer[] buffers = {new ReturnBuffer(memory[0]), new ReturnBuffer(memory[1])};
    answerer.on(
        OWN,
        request -> {
          assertEquals(2, request.returnCount());
          assertEquals(LARGE, request.returnSize(0));
          request.reply(
              new Outgoing()
                  .addReturn(pattern(LARGE, 4), 0)
                  .add(bytes("beside"))
                  .addReturn(bytes("too large"), 1));
        });
    serve();
    for (int round = 0; round < 2; ++round) {
      Outgoing arguments = new Outgoing().attach(buffers[0]).attach(buffers[1]);
      memory[0].putLong(0, 0);
      try (CallResult result = caller.callWait(to(), OWN, arguments)) {
        assertEquals(CallOutcome.ANSWERED, result.outcome());
        assertEquals(ViewKind.RETURNED, result.kind(0));
        assertEquals(pattern(LARGE, 4), result.item(0));
        assertEquals(pattern(LARGE, 4), memory[0]);
        assertEquals("beside", text(result.item(1)));
        assertEquals("too large", text(result.item(2)));
      }
      assertFalse(buffers[0].isAttached());
      assertFalse(buffers[1].isAttached());
    }
  }

  @Test
  void aReturnBufferBelongsToOneCall() throws Exception {
    serve();
    ReturnBuffer buffer = new ReturnBuffer(ByteBuffer.allocateDirect(10));
    RpcCall call = caller.call(to(), KEEP, new Outgoing().attach(buffer));
    assertThrows(
        IllegalStateException.class, () -> caller.call(to(), ECHO, new Outgoing().attach(buffer)));
    Request request = takeKeptRunning();
    request.reply(new Outgoing().addReturn(bytes("back"), 0));
    try (CallResult result = end(call)) {
      assertAnswered(0, result, "back");
    }
  }

  // ---- The end ----

  @Test
  void closingAnEndpointEndsItsCallsAndFreesItsService() throws Exception {
    serve();
    RpcCall sent = caller.call(to(), KEEP, new Outgoing());
    Request request = takeKeptRunning();
    RpcCall unsent = caller.call(ServiceId.of(4711), KEEP, new Outgoing());
    List<String> told = new ArrayList<>();
    CallHandler handler = result -> told.add(result.outcome() + " " + result.status());
    caller.callThen(ServiceId.of(4711), KEEP, new Outgoing(), handler);
    caller.close();
    caller.close();
    assertTrue(caller.isClosed());
    assertEnded(CallOutcome.MAY_HAVE_RUN, Status.CLOSED, sent.join());
    assertEnded(DID_NOT_RUN, Status.CLOSED, unsent.join());
    assertEquals(List.of("DID_NOT_RUN CLOSED"), told);
    assertThrows(RipcException.Closed.class, () -> caller.call(to(), ECHO, bytes("x")));
    assertThrows(RipcException.Closed.class, () -> caller.callWait(to(), ECHO, bytes("x")));
    assertThrows(RipcException.Closed.class, () -> caller.run(0, TimeUnit.SECONDS));
    assertThrows(RipcException.Closed.class, () -> caller.on(OWN, CallPairTest::echo));
    assertThrows(RipcException.Closed.class, caller::statistics);
    assertThrows(RipcException.Closed.class, caller::methods);
    assertFalse(caller.cancel(1));
    caller.serve();
    request.reply(new Outgoing());
    while (client.poll() != null) {}
    server.send(client.id(), bytes("a message"));
    assertEquals("a message", receiveText(client));
    try (Rpc again = Rpc.open(client);
        CallResult result = again.callWait(to(), ECHO, bytes("again"))) {
      assertAnswered(7, result, "again");
    }
  }

  @Test
  void theServersEndEndsCallsThatItHas() throws Exception {
    serve();
    RpcCall call = caller.call(to(), KEEP, new Outgoing());
    Request request = takeKeptRunning();
    server.close();
    assertTrue(answerer.isClosed());
    try (CallResult result = end(call)) {
      assertEquals(CallOutcome.MAY_HAVE_RUN, result.outcome());
      assertTrue(
          List.of(Status.CLOSED, Status.PEER_DEAD).contains(result.status()), result::toString);
    }
    assertThrows(RipcException.Closed.class, () -> request.reply(bytes("late")));
    assertThrows(
        RipcException.Closed.class,
        () -> request.reply(new Outgoing().borrow(ByteBuffer.allocateDirect(LARGE))));
    assertFalse(request.isEnded());
    assertEquals(0, request.timeLeft(TimeUnit.SECONDS));
    request.drop(Status.CANCELLED);
  }

  @Test
  void aContextsEndDropsWhatIsKept() throws Exception {
    serve();
    RpcCall call = caller.call(to(), KEEP, pattern(LARGE, 5));
    Request request = takeKeptRunning();
    serverContext.close();
    assertTrue(request.isEnded());
    assertThrows(IllegalStateException.class, () -> request.item(0));
    end(call).close();
  }

  /** As by a thread that was receiving, or keeping a request, when the context was closed. */
  @Test
  void whatIsKeptAfterAContextsEndHasBegunEndsAtOnce() {
    RipcCore core = serverContext.core();
    core.enter();
    serverContext.close();
    boolean[] closed = new boolean[1];
    core.add(
        new NativeMessage(core) {
          @Override
          long enter() {
            throw new AssertionError("nobody uses it");
          }

          @Override
          void leave() {}

          @Override
          void close() {
            closed[0] = true;
            core.handles().remove(this);
            core.guard().leave();
          }
        });
    assertTrue(closed[0]);
  }

  @Test
  void aHandlerMayCloseEverything() throws Exception {
    List<Runnable> closers =
        List.of(() -> answerer.close(), () -> server.close(), () -> serverContext.close());
    for (Runnable closer : closers) {
      AtomicReference<Throwable> answer = new AtomicReference<>();
      answerer.on(
          OWN,
          request -> {
            closer.run();
            try {
              request.reply(bytes("late"));
            } catch (RuntimeException thrown) {
              answer.set(thrown);
            }
          });
      Thread runs = thread(answerer::serve);
      caller.callWait(to(), OWN, bytes("x")).close();
      runs.join();
      assertTrue(answer.get() instanceof RipcException.Closed, "" + answer.get());
      closeCalls();
      close();
      open();
      openCalls();
    }
  }

  /** Threads use everything while others close it, in any order. */
  @Test
  void everythingMayBeClosedWhileItIsUsed() throws Exception {
    AtomicReference<Throwable> wrong = new AtomicReference<>();
    for (int round = 0; round < 20; ++round) {
      Ripc one = context();
      Ripc other = context();
      Service left = one.register();
      Service right = other.register();
      Rpc calls = Rpc.open(left);
      Rpc answers = Rpc.open(right);
      List<Request> some = java.util.Collections.synchronizedList(new ArrayList<>());
      answers.on(ECHO, CallPairTest::echo).on(KEEP, request -> some.add(request.keep()));
      List<Thread> threads = new ArrayList<>();
      threads.add(user(wrong, () -> answers.run(1, TimeUnit.MILLISECONDS)));
      threads.add(user(wrong, () -> calls.run(1, TimeUnit.MILLISECONDS)));
      for (int number = 0; number < 2; ++number)
        threads.add(user(wrong, () -> use(calls, right.id(), some)));
      Thread.sleep(5);
      List<Runnable> closers =
          new ArrayList<>(
              List.of(
                  calls::close,
                  answers::close,
                  left::close,
                  right::close,
                  one::close,
                  other::close));
      java.util.Collections.shuffle(closers, new java.util.Random(round));
      for (Runnable closer : closers) threads.add(thread(closer::run));
      for (Thread each : threads) each.join();
      for (Request each : some) assertTrue(each.isEnded());
    }
    if (wrong.get() != null) throw new AssertionError(wrong.get());
  }

  private void use(Rpc calls, ServiceId to, List<Request> some) throws Exception {
    switch (ThreadLocalRandom.current().nextInt(6)) {
      case 0 -> calls.call(to, ECHO, pattern(20_000, 1)).cancel(true);
      case 1 -> calls.callWait(to, ECHO, new Outgoing(), timeout(50)).close();
      case 2 -> calls.call(to, KEEP, pattern(200_000, 1)).thenAccept(CallResult::close);
      case 3 -> calls.callThen(to, ECHO, new Outgoing().add(bytes("x")), CallResult::keep);
      case 4 -> {
        if (some.isEmpty()) return;
        Request request = some.remove(0);
        try {
          request.reply(pattern(200_000, 2));
        } catch (RipcException unreachable) {
          request.drop(Status.CANCELLED);
        }
      }
      default -> calls.methods();
    }
  }

  private Thread user(AtomicReference<Throwable> wrong, ThrowingRunnable body) {
    return thread(
        () -> {
          while (true) {
            try {
              body.run();
            } catch (RipcException.Closed gone) {
              return;
            } catch (RipcException.NoRoom
                | RipcException.NoService
                | IllegalStateException
                | IndexOutOfBoundsException full) {
              Thread.yield();
            } catch (Throwable thrown) {
              wrong.set(thrown);
              return;
            }
          }
        });
  }

  // ---- What is lost ----

  @Test
  void aLostRequestIsDroppedAndReported() throws Exception {
    serve();
    long before = Leaks.reported();
    RpcCall call = caller.call(to(), KEEP, bytes("x"));
    assertTrue(eventuallyRunning(() -> !kept.isEmpty()));
    kept.clear();
    assertTrue(
        eventuallyRunning(
            () -> {
              System.gc();
              return call.isDone();
            }));
    assertEnded(CallOutcome.MAY_HAVE_RUN, Status.CANCELLED, call.join());
    assertTrue(eventually(() -> Leaks.reported() > before));
  }

  @Test
  void aLostEndpointIsClosedAndReported() throws Exception {
    long before = Leaks.reported();
    Service service = clientContext.register();
    WeakReference<Rpc> lost = new WeakReference<>(Rpc.open(service));
    assertTrue(
        eventually(
            () -> {
              System.gc();
              return lost.get() == null && Leaks.reported() > before;
            }));
    assertTrue(
        eventually(
            () -> {
              try {
                return service.poll() == null;
              } catch (IllegalStateException closing) {
                return false;
              }
            }));
  }

  @Test
  void callsLeaveNobodyToCall() throws Exception {
    serve();
    int before = Callbacks.waiting();
    for (int round = 0; round < 200; ++round)
      caller.callWait(to(), ECHO, new Outgoing().borrow(pattern(20_000, 1))).close();
    assertTrue(eventuallyRunning(() -> Callbacks.waiting() <= before));
  }
}
