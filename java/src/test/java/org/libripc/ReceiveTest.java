// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.libripc.internal.Layout;

/** Receiving: waiting, interrupting, many at once, holding messages. */
class ReceiveTest extends PairTest {
  private boolean sleepsAgain(Service service, long before) throws InterruptedException {
    return eventually(() -> service.statistics().sleeps() > before);
  }

  @Test
  void withoutATimeItReturnsNullAtOnce() throws Exception {
    assertNull(server.poll());
    assertNull(server.receive(0, TimeUnit.SECONDS));
    client.send(server.id(), bytes("hello"));
    assertTrue(
        eventually(
            () -> {
              try (Message message = server.poll()) {
                return message != null;
              }
            }));
    assertNull(server.poll());
  }

  @Test
  void theTimeGivenRunsOut() throws Exception {
    long started = System.nanoTime();
    assertNull(server.receive(30, TimeUnit.MILLISECONDS));
    assertTrue(System.nanoTime() - started >= 30_000_000, "not earlier");
    assertNull(server.receive(1, TimeUnit.NANOSECONDS));
    assertNull(server.receive(-5, TimeUnit.SECONDS));
  }

  @Test
  void aBlockedReceiverIsWokenByAMessage() throws Exception {
    for (int round = 0; round < 20; ++round) {
      long before = server.statistics().sleeps();
      AtomicReference<String> received = new AtomicReference<>();
      Thread receiver =
          thread(
              () -> {
                try (Message message = server.receive()) {
                  received.set(text(message.item(0)));
                }
              });
      assertTrue(sleepsAgain(server, before));
      client.send(server.id(), bytes("round " + round));
      receiver.join();
      assertEquals("round " + round, received.get());
    }
  }

  @Test
  void aBlockedReceiverIsWokenByAnotherProcess() throws Exception {
    try (PeerProcess peer = peer()) {
      assertEquals("OK", peer.call("register", "77"));
      for (int round = 0; round < 5; ++round) {
        peer.tell("send", String.valueOf(server.id().value()), "hello");
        assertEquals("hello", receiveText(server));
        assertEquals("OK", peer.answer());
      }
    }
  }

  @Test
  void noWakeIsLostBetweenTwoThatAlwaysSleep() throws Exception {
    try (Ripc near = context(o -> o.spin(0, TimeUnit.SECONDS));
        Ripc far = context(o -> o.spin(0, TimeUnit.SECONDS))) {
      Service one = near.register();
      Service other = far.register();
      int count = 1000;
      Thread echo =
          thread(
              () -> {
                for (int index = 0; index < count; ++index) {
                  try (Message message = receive(other)) {
                    other.reply(message, bytes("back"));
                  }
                }
              });
      for (int index = 0; index < count; ++index) {
        one.send(other.id(), bytes("there"));
        assertEquals("back", receiveText(one));
      }
      echo.join();
    }
  }

  @Test
  void threadInterruptEndsAReceive() throws Exception {
    for (int round = 0; round < 20; ++round) {
      long before = server.statistics().sleeps();
      Thread receiver =
          thread(
              () -> {
                assertThrows(InterruptedException.class, () -> server.receive());
                assertFalse(
                    Thread.currentThread().isInterrupted(), "the exception has taken the flag");
              });
      assertTrue(sleepsAgain(server, before));
      receiver.interrupt();
      receiver.join();
    }
    client.send(server.id(), bytes("after"));
    assertEquals("after", receiveText(server), "nothing was lost, and the service goes on");
  }

  @Test
  void aThreadThatIsInterruptedAlreadyDoesNotWait() {
    Thread.currentThread().interrupt();
    assertThrows(InterruptedException.class, () -> server.receive());
    Thread.currentThread().interrupt();
    assertThrows(InterruptedException.class, () -> server.receive(0, TimeUnit.SECONDS));
    Thread.currentThread().interrupt();
    assertNull(server.poll(), "poll does not wait, so it does not care");
    assertTrue(Thread.interrupted());
  }

  @Test
  void aWaitFindsAnInterruptThatItIsNotToldOf() {
    AtomicInteger waits = new AtomicInteger();
    Waiting.Wait late =
        timeout -> {
          // An interrupt by the thread itself tells nobody.
          if (waits.incrementAndGet() == 5) Thread.currentThread().interrupt();
          return -Status.TIMEOUT.code();
        };
    assertThrows(
        InterruptedException.class, () -> server.core().waiting().await(late, Layout.FOREVER));
    assertEquals(5, waits.get());
  }

  @Test
  void threadInterruptEndsTheWaitThatWasMeantWhenTwoThreadsWait() throws Exception {
    Service small = serverContext.service().queueMessages(16).register();
    Outgoing message = new Outgoing();
    while (client.trySend(small.id(), message) != null) {}
    Thread receiver =
        thread(() -> assertThrows(InterruptedException.class, () -> client.receive()));
    Thread waiter =
        thread(
            () ->
                assertThrows(
                    InterruptedException.class,
                    () -> client.waitRoom(small.id(), 60, TimeUnit.SECONDS)));
    assertTrue(sleepsAgain(client, 0));
    waiter.interrupt();
    waiter.join();
    assertTrue(receiver.isAlive(), "the other one goes on");
    receiver.interrupt();
    receiver.join();
  }

  @Test
  void threadInterruptEndsBothWaitsOfTwoThreadsThatAreInterruptedAtOnce() throws Exception {
    Service small = serverContext.service().queueMessages(16).register();
    while (client.trySend(small.id(), new Outgoing()) != null) {}
    for (int round = 0; round < 50; ++round) {
      long before = client.statistics().sleeps();
      Thread receiver =
          thread(
              () ->
                  assertThrows(
                      InterruptedException.class,
                      () -> client.receive(2 * LIMIT, TimeUnit.SECONDS)));
      Thread waiter =
          thread(
              () ->
                  assertThrows(
                      InterruptedException.class,
                      () -> client.waitRoom(small.id(), 2 * LIMIT, TimeUnit.SECONDS)));
      assertTrue(sleepsAgain(client, before));
      waiter.interrupt();
      receiver.interrupt();
      assertTrue(eventually(() -> !waiter.isAlive() && !receiver.isAlive()), "round " + round);
    }
  }

  @Test
  void interruptEndsTheReceiveThatRunsOrTheNextOne() throws Exception {
    server.interrupt();
    RipcException early = assertThrows(RipcException.class, () -> server.receive());
    assertEquals(Status.INTERRUPTED, early.status());
    assertNull(server.poll(), "only the next one");
    long before = server.statistics().sleeps();
    Thread receiver =
        thread(
            () ->
                assertEquals(
                    Status.INTERRUPTED,
                    assertThrows(RipcException.class, server::receive).status()));
    assertTrue(sleepsAgain(server, before));
    server.interrupt();
    receiver.join();
  }

  @Test
  void oneThreadAtATimeReceives() throws Exception {
    long before = server.statistics().sleeps();
    Thread receiver = thread(() -> assertThrows(InterruptedException.class, server::receive));
    assertTrue(sleepsAgain(server, before));
    assertThrows(IllegalStateException.class, server::poll);
    receiver.interrupt();
    receiver.join();
    assertNull(server.poll());
  }

  @Test
  void aBatchHoldsWhatIsThereUpToItsCapacity() throws Exception {
    try (MessageBatch batch = server.batch(10, 4096)) {
      for (int tag = 0; tag < 25; ++tag) client.send(server.id(), bytes("number " + tag), tag);
      int expected = 0;
      while (expected < 25) {
        int count = server.receive(batch, LIMIT, TimeUnit.SECONDS);
        assertTrue(count >= 1 && count <= 10);
        assertEquals(count, batch.size());
        for (Message message : batch) {
          assertEquals(expected, message.tag());
          assertEquals("number " + expected++, text(message.item(0)));
        }
      }
      assertEquals(0, server.poll(batch));
      assertEquals(0, server.receive(batch, 1, TimeUnit.MILLISECONDS));
      assertThrows(IndexOutOfBoundsException.class, () -> batch.get(0));
      assertThrows(
          IllegalArgumentException.class, () -> client.poll(batch), "a batch is its service's");
    }
  }

  @Test
  void aBatchTakesItemsThatAreLargerThanItsMemory() throws Exception {
    try (MessageBatch batch = server.batch(4, 0)) {
      client.send(
          server.id(), new Outgoing().add(bytes("small")).add(pattern(1000, 5), ItemKind.SHORT));
      assertEquals(1, server.receive(batch, LIMIT, TimeUnit.SECONDS));
      assertEquals("small", text(batch.get(0).item(0)));
      assertEquals(pattern(1000, 5), batch.get(0).item(1));
    }
  }

  @Test
  void largerMessagesThatComeTogetherTakeNoMemoryOfTheirOwn() throws Exception {
    ByteBuffer body = ByteBuffer.allocateDirect(10_000);
    Outgoing message = new Outgoing().add(body, ItemKind.SHORT);
    BufferPoolMXBean memory = directMemory();
    long most = 0;
    try (Service large = serverContext.service().queueBytes(1 << 20).register()) {
      for (int round = 0; round < 200; ++round) {
        int sent = 0;
        while (sent < 12 && client.trySend(large.id(), message) != null) ++sent;
        assertTrue(sent > 4, sent + " found room");
        long before = memory.getCount();
        for (int count = 0; count < sent; ++count) {
          try (Message each = large.receive(LIMIT, TimeUnit.SECONDS)) {
            assertEquals(body, each.item(0));
          }
        }
        if (round >= 2) most = Math.max(most, memory.getCount() - before);
      }
    }
    assertTrue(most <= 1, most + " pieces of memory were taken for one round");
  }

  private static BufferPoolMXBean directMemory() {
    return ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class).stream()
        .filter(each -> each.getName().equals("direct"))
        .findFirst()
        .orElseThrow();
  }

  @Test
  void aServiceThatGetsSmallMessagesTakesLittleMemory() throws Exception {
    int services = 20;
    List<Service> all = new ArrayList<>();
    for (int count = 0; count < services; ++count) all.add(serverContext.service().register());
    long before = directMemory().getTotalCapacity();
    for (int round = 0; round < 50; ++round) {
      for (Service each : all) {
        client.send(each.id(), bytes("small"));
        try (Message message = each.receive(LIMIT, TimeUnit.SECONDS)) {
          assertEquals("small", text(message.item(0)));
        }
      }
    }
    long taken = directMemory().getTotalCapacity() - before;
    assertTrue(taken <= services * (80 << 10), taken + " bytes");
    all.forEach(Service::close);
  }

  @Test
  void messagesHeldKeepTheirBytesWhileOthersCome() throws Exception {
    List<Message> held = new ArrayList<>();
    List<ByteBuffer> items = new ArrayList<>();
    for (int round = 0; round < 3000; ++round) {
      client.send(server.id(), bytes("message " + round));
      held.add(receive(server));
      items.add(held.get(round).item(0));
    }
    for (int round = 0; round < 3000; round += 2) held.get(round).close();
    for (int round = 0; round < 500; ++round) {
      client.send(server.id(), bytes("late"));
      assertEquals("late", receiveText(server));
    }
    for (int round = 1; round < 3000; round += 2) {
      assertEquals("message " + round, text(held.get(round).item(0)));
      assertEquals("message " + round, text(items.get(round)));
      held.get(round).close();
    }
  }

  @Test
  void anyThreadMayCloseAMessage() throws Exception {
    List<Message> held = new ArrayList<>();
    for (int count = 0; count < 100; ++count) {
      client.send(server.id(), bytes("x"));
      held.add(receive(server));
    }
    Thread other = thread(() -> held.forEach(Message::close));
    for (int count = 0; count < 100; ++count) {
      client.send(server.id(), bytes("y"));
      assertEquals("y", receiveText(server));
    }
    other.join();
    held.forEach(message -> assertThrows(IllegalStateException.class, message::tag));
  }

  @Test
  void theSourceOfManyMessagesIsOneObject() throws Exception {
    client.send(server.id(), bytes("a"));
    client.send(server.id(), bytes("b"));
    try (Message first = receive(server);
        Message second = receive(server)) {
      assertSame(first.source(), second.source());
    }
  }

  // A thread that closes is in the receiver for a moment, too. That is no misuse by two threads.
  @Test
  void aPollBesideAnotherThreadsCloseFindsThatItIsClosed() throws Exception {
    for (int round = 0; round < 300; ++round) {
      Service service = serverContext.register();
      Thread closer = thread(service::close);
      while (!service.isClosed()) Thread.onSpinWait();
      for (int count = 0; count < 100; ++count)
        assertThrows(RipcException.Closed.class, service::poll);
      closer.join();
    }
  }

  @Test
  void aServiceThatIsTakenOverIsFenced() throws Exception {
    Service former = serverContext.service().id(4711).register();
    assertThrows(RipcException.IdInUse.class, () -> clientContext.service().id(4711).register());
    Service successor = clientContext.service().id(4711).takeover().register();
    assertNotNull(successor);
    assertThrows(RipcException.Fenced.class, () -> former.receive(LIMIT, TimeUnit.SECONDS));
  }

  @Test
  void aTakeoverEndsTheReceiveThatWaits() throws Exception {
    Service former = serverContext.service().id(4712).register();
    Thread receiver = thread(() -> assertThrows(RipcException.Fenced.class, former::receive));
    assertTrue(sleepsAgain(former, 0));
    clientContext.service().id(4712).takeover().register();
    assertTrue(eventually(() -> !receiver.isAlive()));
  }
}
