// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** A guest is a thread that waits for the result of a task, and receives meanwhile. */
class GuestTest extends ReceivingThreadsFixture {
  private Thread lastGuest;

  private static final long LIMIT_NANOS = TimeUnit.SECONDS.toNanos(LIMIT);

  /** Starts a guest that receives until the answer is complete. The future tells how that ended. */
  private CompletableFuture<Thread> guest(CompletableFuture<?> answer, long nanos) {
    CompletableFuture<Thread> end = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try {
                guests.await(answer, nanos);
                end.complete(Thread.currentThread());
              } catch (TimeoutException late) {
                end.complete(Thread.currentThread());
              } catch (Throwable problem) {
                end.completeExceptionally(problem);
              }
            });
    lastGuest = thread;
    thread.start();
    return end;
  }

  private CompletableFuture<Thread> guest(CompletableFuture<?> answer) throws Exception {
    awaitFollowers();
    CompletableFuture<Thread> end = guest(answer, LIMIT_NANOS);
    assertTrue(eventually(tasks::hasGuest));
    return end;
  }

  /** Waits until a thread waits for events: before that no guest is taken. */
  private void awaitFollowers() throws InterruptedException {
    assertTrue(eventually(tasks.events::hasQueuedThreads));
  }

  private static <T> T get(CompletableFuture<T> future) throws Exception {
    return future.get(LIMIT, TimeUnit.SECONDS);
  }

  private void assertOthersReceive() {
    CountDownLatch done = new CountDownLatch(1);
    tasks.offer(done::countDown);
    await(done);
  }

  @Test
  void aGuestRunsWhatItWaitsForAndNobodyElseIsWoken() throws Exception {
    tasks.stopTime();
    for (int count = 0; count < 100; ++count) {
      CompletableFuture<Thread> answer = new CompletableFuture<>();
      CompletableFuture<Thread> end = guest(answer);
      tasks.offer(() -> answer.complete(Thread.currentThread()));
      assertEquals(get(end), get(answer));
    }
    assertEquals(0, tasks.wakes.get());
    tasks.letTimePass();
    assertOthersReceive();
  }

  @Test
  void aGuestThatSendsRunsItsAnswerHoweverEarlyItComes() throws Exception {
    tasks.stopTime();
    int before = tasks.wakes.get();
    for (int count = 0; count < 100; ++count) {
      awaitFollowers();
      CompletableFuture<Thread> answer = new CompletableFuture<>();
      Thread runner =
          guests.await(
              () -> {
                tasks.offer(() -> answer.complete(Thread.currentThread()));
                return answer;
              },
              LIMIT_NANOS);
      assertSame(Thread.currentThread(), runner);
    }
    assertEquals(before, tasks.wakes.get());
    tasks.letTimePass();
    assertOthersReceive();
  }

  @Test
  void aGuestThatBlocksInItsSendHoldsUpNobody() throws Exception {
    for (int count = 0; count < 10; ++count) {
      awaitFollowers();
      CompletableFuture<Thread> answer = new CompletableFuture<>();
      guests.await(
          () -> {
            assertOthersReceive();
            tasks.offer(() -> answer.complete(Thread.currentThread()));
            return answer;
          },
          LIMIT_NANOS);
    }
    aGuestThatSendsRunsItsAnswerHoweverEarlyItComes();
  }

  @Test
  void aGuestThatCannotSendLeavesThePlaceToOthers() throws Exception {
    for (int count = 0; count < 20; ++count) {
      awaitFollowers();
      assertThrows(
          IllegalStateException.class,
          () ->
              guests.await(
                  () -> {
                    throw new IllegalStateException("as the test wants it");
                  },
                  LIMIT_NANOS));
      assertThrows(NullPointerException.class, () -> guests.await(() -> null, LIMIT_NANOS));
      assertOthersReceive();
    }
  }

  @Test
  void othersRunTasksThatComeWhileAGuestRunsOne() throws Exception {
    CompletableFuture<Void> answer = new CompletableFuture<>();
    CompletableFuture<Thread> end = guest(answer);
    CountDownLatch running = new CountDownLatch(1);
    CountDownLatch release = new CountDownLatch(1);
    tasks.offer(
        () -> {
          running.countDown();
          await(release);
        });
    await(running);
    for (int count = 0; count < 8; ++count) assertOthersReceive();
    tasks.offer(() -> answer.complete(null));
    get(answer);
    assertFalse(end.isDone());
    release.countDown();
    get(end);
  }

  @Test
  void othersAlsoRunTasksThatCameTogether() throws Exception {
    CompletableFuture<Void> answer = new CompletableFuture<>();
    CompletableFuture<Thread> end = guest(answer);
    CountDownLatch both = new CountDownLatch(2);
    Runnable task =
        () -> {
          both.countDown();
          await(both);
        };
    tasks.offered.add(task);
    tasks.offer(task);
    await(both);
    answer.complete(null);
    get(end);
  }

  @Test
  void anyThreadMayEndTheWaitOfAGuest() throws Exception {
    CompletableFuture<Void> answer = new CompletableFuture<>();
    CompletableFuture<Thread> end = guest(answer);
    answer.complete(null);
    get(end);
    assertOthersReceive();
    guests.await(answer, 0);
  }

  @Test
  void othersReceiveWhileSeveralWait() throws Exception {
    CompletableFuture<Void> first = new CompletableFuture<>();
    CompletableFuture<Thread> firstEnd = guest(first);
    CompletableFuture<Void> second = new CompletableFuture<>();
    CompletableFuture<Thread> secondEnd = guest(second, LIMIT_NANOS);
    assertTrue(eventually(() -> lastGuest.getState() == Thread.State.TIMED_WAITING));
    assertOthersReceive(); // the first guest does, and then sees that it is not alone
    assertTrue(eventually(() -> !tasks.hasGuest()));
    CompletableFuture<Thread> runner = new CompletableFuture<>();
    tasks.offer(() -> runner.complete(Thread.currentThread()));
    Thread other = get(runner);
    tasks.offer(() -> first.complete(null));
    tasks.offer(() -> second.complete(null));
    assertNotEquals(other, get(firstEnd));
    assertNotEquals(other, get(secondEnd));
  }

  @Test
  void aThreadAloneAgainBecomesAGuestAfterAWhile() throws Exception {
    othersReceiveWhileSeveralWait();
    boolean here = false;
    for (int count = 0; count < 1000 && !here; ++count) {
      awaitFollowers();
      CompletableFuture<Thread> answer = new CompletableFuture<>();
      tasks.offer(() -> answer.complete(Thread.currentThread()));
      here = guests.await(answer, LIMIT_NANOS) == Thread.currentThread();
    }
    assertTrue(here);
  }

  @Test
  void thereIsNoGuestWhileOthersAreNeeded() throws Exception {
    awaitFollowers();
    tasks.needed = true;
    CompletableFuture<Thread> answer = new CompletableFuture<>();
    CompletableFuture<Thread> end = guest(answer, LIMIT_NANOS);
    tasks.offer(() -> answer.complete(Thread.currentThread()));
    assertNotEquals(get(end), get(answer));
  }

  @Test
  void aGuestWhoseTimeIsOverLeavesThePlaceToOthers() throws Exception {
    for (int count = 0; count < 20; ++count) {
      awaitFollowers();
      get(guest(new CompletableFuture<>(), TimeUnit.MILLISECONDS.toNanos(1)));
      assertOthersReceive();
    }
  }

  @Test
  void aGuestThatIsInterruptedLeavesThePlaceToOthers() throws Exception {
    CompletableFuture<Void> answer = new CompletableFuture<>();
    awaitFollowers();
    CompletableFuture<Thread> started = new CompletableFuture<>();
    CompletableFuture<Throwable> end = new CompletableFuture<>();
    new Thread(
            () -> {
              started.complete(Thread.currentThread());
              end.complete(
                  assertThrows(
                      InterruptedException.class, () -> guests.await(answer, LIMIT_NANOS)));
            })
        .start();
    get(started).interrupt();
    get(end);
    assertOthersReceive();
  }

  @Test
  void theEndEndsTheWaitOfAGuest() throws Exception {
    CompletableFuture<Void> answer = new CompletableFuture<>();
    CompletableFuture<Thread> end = guest(answer);
    threads.end();
    assertTrue(threads.awaitEnd(TimeUnit.SECONDS.toMillis(LIMIT)));
    assertFalse(end.isDone()); // it waits as others do
    answer.complete(null);
    get(end);
  }

  @Test
  void guestsComeAndGoWhileTasksCome() throws Exception {
    int callers = 4;
    int each = 500;
    CompletableFuture<?>[] all = new CompletableFuture<?>[callers];
    for (int index = 0; index < callers; ++index) {
      all[index] =
          CompletableFuture.runAsync(
              () -> {
                for (int count = 0; count < each; ++count) {
                  CompletableFuture<Void> answer = new CompletableFuture<>();
                  tasks.offer(() -> answer.complete(null));
                  try {
                    guests.await(answer, LIMIT_NANOS);
                  } catch (Exception problem) {
                    throw new AssertionError(problem);
                  }
                }
              },
              task -> new Thread(task).start());
    }
    get(CompletableFuture.allOf(all));
  }

  /** A task that is offered again and again, like that of a connection. */
  private static final class Same implements Runnable {
    private final Queue<Runnable> bodies = new ConcurrentLinkedQueue<>();

    @Override
    public void run() {
      bodies.remove().run();
    }
  }

  private void offer(Same connection, Runnable body) {
    connection.bodies.add(body);
    tasks.offer(connection);
  }

  @Test
  void aGuestKeepsItsPlaceForPartsOfItsAnswer() throws Exception {
    Same connection = new Same();
    int parts = 100;
    AtomicInteger others = new AtomicInteger();
    for (int round = 0; round < 2; ++round) {
      CompletableFuture<Thread> answer = new CompletableFuture<>();
      CompletableFuture<Thread> end = guest(answer);
      Thread[] last = new Thread[1];
      AtomicInteger left = new AtomicInteger(parts);
      Runnable part =
          () -> {
            if (last[0] != null && last[0] != Thread.currentThread()) others.incrementAndGet();
            last[0] = Thread.currentThread();
            if (left.decrementAndGet() == 0) answer.complete(Thread.currentThread());
          };
      for (int count = 0; count < parts; ++count) offer(connection, part);
      Thread guest = get(end);
      // In the first round it was not known that the first part belongs to the connection.
      if (round > 0) assertEquals(guest, get(answer));
      if (round > 0) assertEquals(0, others.get());
      others.set(0);
    }
    assertOthersReceive();
  }

  @Test
  void aPartThatBlocksHoldsUpNobody() throws Exception {
    Same connection = new Same();
    for (int count = 0; count < 10; ++count) {
      CompletableFuture<Void> answer = new CompletableFuture<>();
      CompletableFuture<Thread> end = guest(answer);
      offer(connection, () -> {});
      offer(
          connection,
          () -> {
            assertOthersReceive();
            answer.complete(null);
          });
      get(end);
    }
    assertOthersReceive();
  }

  @Test
  void aPartThatFailsEndsNoWait() throws Exception {
    Same connection = new Same();
    CompletableFuture<Void> answer = new CompletableFuture<>();
    CompletableFuture<Thread> end = guest(answer);
    for (int count = 0; count < 10; ++count) {
      offer(
          connection,
          () -> {
            throw new IllegalStateException("as a test wants it");
          });
    }
    offer(connection, () -> answer.complete(null));
    get(end);
    assertOthersReceive();
  }

  @Test
  void whatFollowsACompletionRunsThoughNoOtherThreadReceives() throws Exception {
    CompletableFuture<Thread> answer = new CompletableFuture<>();
    CompletableFuture<Thread> end = guest(answer);
    pool.full = true;
    tasks.failure = new InternalError("as a test wants it");
    tasks.events.release();
    assertTrue(eventually(() -> threads.toString().contains("waiting=0")), threads::toString);
    tasks.offer(new Completion(() -> {}, () -> answer.complete(Thread.currentThread())));
    get(answer);
    get(end);
  }
}
