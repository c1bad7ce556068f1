// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Many services, on which one thread or several wait. */
class SelectorTest extends PairTest {
  @Test
  void oneThreadWaitsForManyServices() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      Service[] services = new Service[20];
      for (int index = 0; index < services.length; ++index) {
        services[index] = (index % 2 == 0 ? serverContext : clientContext).register();
        selector.register(services[index], index);
        assertNull(services[index].poll());
      }
      for (int round = 0; round < 200; ++round) {
        int target = round * 7 % services.length;
        client.send(services[target].id(), bytes("round " + round));
        int received = 0;
        while (received == 0) {
          List<RipcSelector.Key> ready = selector.select(LIMIT, TimeUnit.SECONDS);
          assertFalse(ready.isEmpty(), "missed round " + round);
          for (RipcSelector.Key key : ready) {
            assertTrue(key.isReadable());
            int count = drain(key.service());
            if (count > 0) assertEquals(target, key.attachment());
            received += count;
          }
        }
        assertEquals(1, received);
      }
    }
  }

  @Test
  void noEventIsMissedWhileAnotherProcessStreams() throws Exception {
    try (PeerProcess peer = peer();
        RipcSelector selector = RipcSelector.open()) {
      assertEquals("OK", peer.call("register", "77"));
      selector.register(server, null);
      peer.tell("stream", String.valueOf(server.id().value()), "20000");
      int received = 0;
      while (received < 20_000) {
        assertFalse(selector.select(LIMIT, TimeUnit.SECONDS).isEmpty(), "after " + received);
        received += drain(server);
      }
      assertEquals("OK", peer.answer());
    }
  }

  @Test
  void messagesThatWereFetchedButNotTakenAreReady() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      selector.register(server, null);
      for (int count = 0; count < 10; ++count) client.send(server.id(), bytes("x"));
      for (int count = 0; count < 10; ++count) {
        assertFalse(selector.select(LIMIT, TimeUnit.SECONDS).isEmpty());
        Message message = server.poll();
        assertNotNull(message);
        message.close();
      }
    }
  }

  @Test
  void wakeupEndsTheSelectThatRunsOrTheNextOne() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      selector.wakeup();
      assertEquals(List.of(), selector.select());
      assertEquals(List.of(), selector.select(1, TimeUnit.MILLISECONDS), "once");
      Thread other = thread(() -> assertEquals(List.of(), selector.select()));
      selector.wakeup();
      other.join();
      Thread interrupted =
          thread(() -> assertThrows(InterruptedException.class, () -> selector.select()));
      interrupted.interrupt();
      interrupted.join();
    }
  }

  @Test
  void closedServicesAndSelectorsLeaveEachOther() throws Exception {
    RipcSelector selector = RipcSelector.open();
    RipcSelector.Key key = selector.register(server, "attachment");
    assertThrows(IllegalStateException.class, () -> selector.register(server, null));
    assertSame(server, key.service());
    server.close();
    assertTrue(key.isCancelled());
    assertTrue(selector.keys().isEmpty());
    assertThrows(RipcException.Closed.class, () -> key.requestRoom(client.id()));
    RipcSelector.Key second = selector.register(client, null);
    Thread waiter = thread(() -> assertThrows(RipcException.Closed.class, () -> selector.select()));
    selector.close();
    waiter.join();
    assertTrue(second.isCancelled());
    assertThrows(RipcException.Closed.class, () -> selector.register(client, null));
    selector.close();
    selector.wakeup();
    assertNull(client.poll(), "the service goes on");
  }

  @Test
  void oneThreadAtATimeSelects() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      AtomicInteger refused = new AtomicInteger();
      ThrowingRunnable select =
          () -> {
            try {
              selector.select();
            } catch (IllegalStateException second) {
              refused.incrementAndGet();
            }
          };
      Thread one = thread(select);
      Thread other = thread(select);
      assertTrue(eventually(() -> refused.get() == 1));
      selector.wakeup();
      one.join();
      other.join();
      assertEquals(1, refused.get());
    }
  }

  private final AtomicInteger waits = new AtomicInteger(); // counts those that have ended

  // Receives whenever an event ends its wait, until the selector is closed.
  private Thread follower(RipcSelector selector, Semaphore received) {
    return thread(
        () -> {
          try {
            for (; ; ) {
              selector.awaitEvent();
              waits.incrementAndGet();
              synchronized (received) {
                received.release(drain(server));
              }
            }
          } catch (RipcException.Closed end) {
            // As it should be.
          }
        });
  }

  @Test
  void eachEventEndsTheWaitOfOneThread() throws Exception {
    RipcSelector selector = RipcSelector.open();
    selector.register(server, null);
    client.send(server.id(), bytes("the connection is an event too"));
    assertTrue(eventually(() -> drain(server) == 1));
    Semaphore received = new Semaphore(0);
    List<Thread> followers = new ArrayList<>();
    for (int count = 0; count < 3; ++count) followers.add(follower(selector, received));
    selector.wakeup(); // and the events so far
    assertTrue(eventually(() -> waits.get() != 0));
    int before = waits.get();
    int events = 200;
    for (int event = 0; event < events; ++event) {
      client.send(server.id(), bytes("event " + event));
      assertTrue(received.tryAcquire(LIMIT, TimeUnit.SECONDS), "missed event " + event);
    }
    // Between hosts there are packets besides the messages. A wait may still end for what came
    // before them.
    int most = transport.equals("shm") ? events + followers.size() : Integer.MAX_VALUE;
    assertTrue(waits.get() - before <= most, waits.get() - before + " waits have ended");
    selector.close();
    for (Thread each : followers) each.join();
  }

  /** The descriptor of a closed service may belong to another one at once. */
  @Test
  void aKeyThatIsCancelledWhileItsServiceIsClosedTouchesNoOtherService() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      for (int round = 0; round < 300; ++round) {
        Service ending = clientContext.register();
        RipcSelector.Key key = selector.register(ending, null);
        Thread closer = thread(ending::close);
        Thread canceller = thread(key::cancel);
        Service next = serverContext.register();
        selector.register(next, "next");
        closer.join();
        canceller.join();
        assertTrue(key.isCancelled());
        assertNull(next.poll());
        client.send(next.id(), bytes("hello"));
        assertFalse(selector.select(LIMIT, TimeUnit.SECONDS).isEmpty(), "round " + round);
        assertEquals("hello", receiveText(next));
        next.close();
      }
      assertTrue(selector.keys().isEmpty());
    }
  }

  @Test
  void aServiceThatIsRegisteredTwiceStaysRegisteredOnce() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      RipcSelector.Key key = selector.register(server, null);
      for (int count = 0; count < 3; ++count)
        assertThrows(IllegalStateException.class, () -> selector.register(server, null));
      assertEquals(Set.of(key), selector.keys());
      assertEquals(Set.of(key), server.core().keys());
      key.cancel();
      key.cancel();
      assertEquals(Set.of(), server.core().keys());
      selector.register(server, null);
      client.send(server.id(), bytes("hello"));
      assertFalse(selector.select(LIMIT, TimeUnit.SECONDS).isEmpty());
    }
  }

  @Test
  void whileItIsPausedAReceiverIsWokenAndNoOtherThread() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      RipcSelector.Key key = selector.register(server, null);
      assertNull(server.poll());
      AtomicInteger ends = new AtomicInteger();
      Thread waiter =
          thread(
              () -> {
                selector.awaitEvent();
                ends.incrementAndGet();
              });
      for (int round = 0; round < 50; ++round) {
        key.pause();
        Thread receiver = thread(() -> assertEquals("paused", receiveText(server)));
        client.send(server.id(), bytes("paused"));
        receiver.join();
        assertNull(server.poll());
        key.resume();
      }
      assertEquals(0, ends.get());
      assertTrue(waiter.isAlive());
      client.send(server.id(), bytes("again"));
      waiter.join();
      assertEquals("again", receiveText(server));
    }
  }

  @Test
  void resumeReportsMessagesThatCameDuringThePause() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      RipcSelector.Key key = selector.register(server, null);
      assertNull(server.poll());
      key.pause();
      client.send(server.id(), bytes("early"));
      assertTrue(selector.select(20, TimeUnit.MILLISECONDS).isEmpty());
      key.resume();
      assertEquals(List.of(key), selector.select(LIMIT, TimeUnit.SECONDS));
      assertEquals("early", receiveText(server));
      key.cancel();
      key.pause();
      key.resume();
    }
  }
}
