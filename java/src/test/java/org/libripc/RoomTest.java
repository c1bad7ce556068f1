// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Full peers, and waiting until they have room: by a call, or with a selector. */
class RoomTest extends PairTest {
  private Service full() {
    Service small = serverContext.service().queueMessages(16).register();
    Outgoing message = new Outgoing();
    while (client.trySend(small.id(), message) != null) {}
    return small;
  }

  @Test
  void aFullPeerIsNoRoomAndNothingIsSent() throws Exception {
    Service small = full();
    assertThrows(RipcException.NoRoom.class, () -> client.send(small.id(), bytes("more")));
    assertFalse(client.waitRoom(small.id(), 20, TimeUnit.MILLISECONDS));
    Outgoing message = new Outgoing();
    assertThrows(
        RipcException.TimedOut.class,
        () -> client.send(small.id(), message, 20, TimeUnit.MILLISECONDS));
    assertTrue(drain(small) >= 16);
    assertTrue(client.waitRoom(small.id(), LIMIT, TimeUnit.SECONDS));
    client.send(small.id(), message);
  }

  @Test
  void aPeerThatIsGoneIsWritableAndNobodyLooksForIt() throws Exception {
    Service small = full();
    try (RipcSelector selector = RipcSelector.open()) {
      RipcSelector.Key key = selector.register(client, null);
      key.requestRoom(small.id());
      long resolutions = client.statistics().resolutions();
      small.close();
      List<RipcSelector.Key> ready = List.of();
      while (ready.isEmpty() || key.writable().isEmpty())
        ready = selector.select(LIMIT, TimeUnit.SECONDS);
      assertEquals(List.of(small.id()), key.writable());
      key.requestRoom(small.id());
      selector.select(LIMIT, TimeUnit.SECONDS);
      assertEquals(List.of(small.id()), key.writable());
      assertEquals(resolutions, client.statistics().resolutions());
    }
    assertThrows(
        RipcException.NoService.class, () -> client.send(small.id(), bytes("the send tells")));
  }

  @Test
  void waitRoomReturnsWhenTheReceiverDrains() throws Exception {
    for (int round = 0; round < 10; ++round) {
      Service small = full();
      Thread receiver = thread(() -> drain(small));
      assertTrue(client.waitRoom(small.id(), LIMIT, TimeUnit.SECONDS));
      receiver.join();
      small.close();
    }
  }

  @Test
  void threadInterruptEndsAWaitForRoom() throws Exception {
    Service small = full();
    Thread waiter =
        thread(
            () ->
                assertThrows(
                    InterruptedException.class,
                    () -> client.waitRoom(small.id(), 60, TimeUnit.SECONDS)));
    assertTrue(eventually(() -> waiter.getState() == Thread.State.RUNNABLE));
    waiter.interrupt();
    waiter.join();
  }

  @Test
  void threadInterruptEndsAWaitForRoomWhileAnotherThreadPolls() throws Exception {
    Service small = full();
    for (int round = 0; round < 20; ++round) {
      Thread waiter =
          thread(
              () ->
                  assertThrows(
                      InterruptedException.class,
                      () -> client.waitRoom(small.id(), 2 * LIMIT, TimeUnit.SECONDS)));
      // It may be interrupted before it waits, or when it does.
      waiter.interrupt();
      assertTrue(
          eventually(
              () -> {
                for (int count = 0; count < 1000; ++count) assertNull(client.poll());
                return !waiter.isAlive();
              }),
          "round " + round);
    }
  }

  @Test
  void interruptIsKeptForTheNextReceiveWhenASelectComesFirst() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      RipcSelector.Key key = selector.register(client, null);
      Service small = full();
      key.requestRoom(small.id());
      client.interrupt();
      selector.select(1, TimeUnit.MILLISECONDS);
      RipcException end =
          assertThrows(RipcException.class, () -> client.receive(LIMIT, TimeUnit.SECONDS));
      assertEquals(Status.INTERRUPTED, end.status());
      assertNull(client.poll(), "once");
    }
  }

  @Test
  void roomIsReportedAlsoIfAReceiveHasTakenItsEvent() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      RipcSelector.Key key = selector.register(client, null);
      Service small = full();
      key.requestRoom(small.id());
      assertTrue(drain(small) >= 16);
      assertTrue(client.waitRoom(small.id(), LIMIT, TimeUnit.SECONDS));
      for (int count = 0; count < 100; ++count) assertNull(client.poll());
      assertFalse(selector.select(LIMIT, TimeUnit.SECONDS).isEmpty());
      assertEquals(List.of(small.id()), key.writable());
    }
  }

  @Test
  void roomAtAPeerIsReportedOnce() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      RipcSelector.Key key = selector.register(client, null);
      Service small = full();
      drain(client);
      key.requestRoom(small.id());
      for (RipcSelector.Key ready : selector.select(50, TimeUnit.MILLISECONDS)) {
        assertEquals(List.of(), ready.writable(), "there is none");
        drain(ready.service());
      }
      drain(small);
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT);
      while (key.writable().isEmpty() && System.nanoTime() < end) {
        for (RipcSelector.Key ready : selector.select(LIMIT, TimeUnit.SECONDS))
          drain(ready.service());
      }
      assertEquals(List.of(small.id()), key.writable());
      client.send(small.id(), bytes("there is room"));
      selector.select(1, TimeUnit.MILLISECONDS);
      assertEquals(List.of(), key.writable());
    }
  }

  @Test
  void aThreadThatWaitsForEventsFindsRoom() throws Exception {
    try (RipcSelector selector = RipcSelector.open()) {
      RipcSelector.Key key = selector.register(client, null);
      Service small = full();
      key.requestRoom(small.id());
      assertEquals(List.of(), key.findRoom());
      Thread receiver = thread(() -> drain(small));
      List<ServiceId> found = List.of();
      while (found.isEmpty()) {
        selector.awaitEvent();
        assertNull(client.poll());
        found = key.findRoom();
      }
      assertEquals(List.of(small.id()), found);
      assertEquals(List.of(), key.findRoom(), "once");
      receiver.join();
    }
  }
}
