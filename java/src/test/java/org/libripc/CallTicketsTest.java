// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.libripc.rpc.CallResult;
import org.libripc.rpc.Request;
import org.libripc.rpc.RpcCall;

/** Calls: the tickets of answers that travel long, and what their actions may do. */
class CallTicketsTest extends CallPairTest {
  private static final int LARGE = 1 << 20;
  private static final ByteBuffer ANSWER = pattern(LARGE, 3);

  private List<Runnable> closers() {
    return List.of(() -> answerer.close(), () -> server.close(), () -> serverContext.close());
  }

  private void openAgain() throws InterruptedException {
    closeCalls();
    close();
    open();
    openCalls();
  }

  private void assertEnds(Thread thread) throws InterruptedException {
    thread.join(TimeUnit.SECONDS.toMillis(LIMIT));
    assertFalse(thread.isAlive(), "it waits for itself");
  }

  @Test
  void aBorrowedAnswersTicketEndsItsLoan() throws Exception {
    CompletableFuture<Ticket> ticket = new CompletableFuture<>();
    answerer.on(OWN, request -> ticket.complete(request.reply(new Outgoing().borrow(ANSWER))));
    serve();
    try (CallResult result = caller.callWait(to(), OWN, new Outgoing())) {
      assertEquals(ANSWER, result.item(0));
    }
    // The ticket completes while the serving thread sleeps.
    ticket.get(LIMIT, TimeUnit.SECONDS).get(LIMIT, TimeUnit.SECONDS);
  }

  @Test
  void anActionInTheRunningThreadMayCloseEverything() throws Exception {
    for (Runnable closer : closers()) {
      Thread runs = thread(answerer::serve);
      RpcCall call = caller.call(to(), KEEP, new Outgoing());
      takeKeptRunning().reply(new Outgoing().borrow(ANSWER)).thenRun(closer);
      end(call).close();
      assertEnds(runs);
      openAgain();
    }
  }

  @Test
  void anActionInAThreadThatAnswersMayCloseEverything() throws Exception {
    for (Runnable closer : closers()) {
      List<RpcCall> calls = new ArrayList<>();
      for (int count = 0; count < 8; ++count) calls.add(caller.call(to(), KEEP, new Outgoing()));
      while (kept.size() < calls.size()) {
        answerer.run(1, TimeUnit.MILLISECONDS);
        caller.run(1, TimeUnit.MILLISECONDS);
      }
      List<Request> requests = new ArrayList<>();
      kept.drainTo(requests);
      Ticket first = requests.get(0).reply(new Outgoing().borrow(ANSWER));
      CompletableFuture<Void> closed = first.thenRun(closer);
      end(calls.get(0)).close();
      // Nobody runs the Rpc now, so the next answer finds that the first one was taken.
      Thread answers =
          thread(
              () -> {
                for (int next = 1; next < calls.size() && !closed.isDone(); ++next) {
                  requests.get(next).reply(new Outgoing().borrow(ANSWER));
                  end(calls.get(next)).close();
                }
              });
      assertEnds(answers);
      assertTrue(closed.isDone());
      for (Request each : requests) if (!each.isEnded()) each.drop(Status.CANCELLED);
      openAgain();
    }
  }
}
