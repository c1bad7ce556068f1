// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Nothing that an application does wrong ends the JVM. */
class MisuseTest extends PairTest {
  @Test
  void everyCallOnAClosedServiceThrows() {
    Outgoing message = new Outgoing();
    ReceiveWindow window = new ReceiveWindow(ByteBuffer.allocateDirect(10));
    Notification notification = server.register((source, items) -> {});
    MessageBatch batch = server.batch(1, 0);
    server.close();
    server.close();
    ServiceId to = client.id();
    List<Executable> calls =
        List.of(
            () -> server.send(to, message),
            () -> server.send(to, bytes("x")),
            () -> server.send(to, new Outgoing().add(pattern(100_000, 1), ItemKind.LONG)),
            () -> server.sendMany(to, new Outgoing[] {message}, 1),
            () -> server.receive(),
            () -> server.receive(1, TimeUnit.SECONDS),
            () -> server.poll(),
            () -> server.poll(batch),
            () -> server.waitRoom(to, 1, TimeUnit.SECONDS),
            () -> server.shortLimit(to, 1),
            () -> server.post(window),
            () -> server.withdraw(window),
            () -> server.join(ServiceId.ofGroup(1)),
            () -> server.leave(ServiceId.ofGroup(1)),
            () -> server.register((source, items) -> {}),
            () -> server.unregister(notification),
            () -> server.notify(notification),
            () -> server.cancelRequest(5),
            () -> server.statistics());
    for (Executable call : calls) assertThrows(RipcException.Closed.class, call);
    server.interrupt();
    assertTrue(server.isClosed());
    assertEquals(0, window.isPosted() ? 1 : 0);
    batch.close();
  }

  @Test
  void everyCallOnAClosedContextThrows() {
    ReceiveWindow window = new ReceiveWindow(ByteBuffer.allocateDirect(10));
    clientContext.close();
    clientContext.close();
    ServiceId id = server.id();
    List<Executable> calls =
        List.of(
            () -> clientContext.register(),
            () -> clientContext.lease(10),
            () -> clientContext.resolve(id),
            () -> clientContext.resolve("name"),
            () -> clientContext.findPath(id),
            () -> clientContext.services(),
            () -> clientContext.members(ServiceId.ofGroup(1)),
            () -> clientContext.poolStatistics(),
            () -> clientContext.post(window),
            () -> clientContext.withdraw(window),
            () -> client.send(id, bytes("x")),
            () -> client.poll());
    for (Executable call : calls) assertThrows(RipcException.Closed.class, call);
  }

  @Test
  void everyCallOnAClosedMessageThrowsAndItsBuffersDoNoHarm() throws Exception {
    client.send(server.id(), bytes("hello"));
    Message message = receive(server);
    ByteBuffer item = message.item(0);
    message.close();
    message.close();
    List<Executable> calls =
        List.of(
            message::source,
            message::tag,
            message::itemCount,
            message::inReplyTo,
            message::returnCount,
            () -> message.kind(0),
            () -> message.status(0),
            () -> message.size(0),
            () -> message.item(0),
            () -> message.borrow(0),
            () -> message.window(0),
            () -> message.copyTo(0, 0, ByteBuffer.allocate(1)),
            () -> server.reply(message, bytes("x")));
    for (Executable call : calls) assertThrows(IllegalStateException.class, call);
    serverContext.close();
    item.get(0);
  }

  @Test
  void messagesOutliveTheirServiceAndEndWithTheirContext() throws Exception {
    server.lending(true);
    try (RegisteredBuffer buffer = clientContext.lease(100_000)) {
      client.send(server.id(), bytes("short"));
      Ticket ticket = client.send(server.id(), new Outgoing().add(buffer, ItemKind.LONG));
      Message small = receive(server);
      Message lent = receive(server);
      server.close();
      assertEquals("short", text(small.item(0)));
      assertEquals(100_000, lent.item(0).remaining());
      serverContext.close();
      assertEquals("short", text(small.item(0)));
      if (lent.kind(0) == ViewKind.LENT) {
        assertThrows(IllegalStateException.class, () -> lent.copyTo(0, 0, ByteBuffer.allocate(10)));
        assertThrows(IllegalStateException.class, () -> lent.borrow(0));
      }
      lent.close();
      small.close();
      assertTrue(eventually(ticket::isDone));
    }
  }

  @Test
  void badArgumentsAreRefused() {
    assertThrows(IndexOutOfBoundsException.class, () -> new Outgoing().addReturn(bytes(""), 16));
    assertThrows(
        IllegalArgumentException.class, () -> new Outgoing().add(bytes(""), ItemKind.RETURN));
    assertThrows(IllegalArgumentException.class, () -> new ReceiveWindow(ByteBuffer.allocate(10)));
    assertThrows(
        IllegalArgumentException.class,
        () -> new ReceiveWindow(ByteBuffer.allocateDirect(1).asReadOnlyBuffer()));
    assertThrows(IllegalArgumentException.class, () -> new ReturnBuffer(ByteBuffer.allocate(10)));
    assertThrows(RipcException.class, () -> clientContext.service().id(-1).register());
    assertThrows(RipcException.class, () -> clientContext.service().queueMessages(17).register());
    assertThrows(RipcException.class, () -> clientContext.service().name("").register());
    assertThrows(RipcException.class, () -> clientContext.resolve(ServiceId.ofGroup(1)));
    assertThrows(RipcException.class, () -> client.join(server.id()));
    assertThrows(RipcException.class, () -> Ripc.builder().transports("pigeons").open());
    assertThrows(NullPointerException.class, () -> client.send(null, bytes("x")));
    assertThrows(NullPointerException.class, () -> client.send(server.id(), (ByteBuffer) null));
    assertThrows(IllegalArgumentException.class, () -> server.batch(0, 100));
    assertThrows(IllegalArgumentException.class, () -> server.batch(65, 100));
    assertThrows(IllegalArgumentException.class, () -> server.batch(1, -1));
    assertThrows(IllegalArgumentException.class, () -> server.batch(64, Integer.MAX_VALUE));
    assertThrows(IllegalArgumentException.class, () -> server.batch(1, Integer.MAX_VALUE - 2727));
    ReceiveWindow window = new ReceiveWindow(ByteBuffer.allocateDirect(10));
    client.post(window);
    assertThrows(IllegalStateException.class, () -> client.post(window));
    assertThrows(IllegalStateException.class, () -> server.post(window));
    assertFalse(server.withdraw(window));
  }

  @Test
  void closeWakesWaitingThreads() throws Exception {
    Service small = serverContext.service().queueMessages(16).register();
    while (client.trySend(small.id(), new Outgoing()) != null) {}
    Thread receiver =
        thread(() -> assertThrows(RipcException.Closed.class, () -> client.receive()));
    Thread waiter =
        thread(
            () ->
                assertThrows(
                    RipcException.Closed.class,
                    () -> client.waitRoom(small.id(), 60, TimeUnit.SECONDS)));
    assertTrue(eventually(() -> client.statistics().sleeps() > 0));
    Thread closer = thread(client::close);
    clientContext.close();
    for (Thread each : List.of(receiver, waiter, closer)) each.join();
  }

  @Test
  void anInterruptedThreadClosesToo() {
    Thread.currentThread().interrupt();
    clientContext.close();
    assertTrue(Thread.interrupted());
    assertTrue(client.isClosed());
  }

  /** One thread fills a message while another one sends it. */
  @Test
  void aMessageThatThreadsShareNeverSendsMemoryThatIsNotInIt() throws Exception {
    Service roomy = serverContext.service().queueBytes(1 << 20).register();
    ByteBuffer all = ByteBuffer.allocateDirect(30_000);
    while (all.hasRemaining()) all.put((byte) 'x');
    ByteBuffer[] items = {all.slice(0, 100), all.slice(1000, 1100), all.slice(10_000, 8000)};
    for (ByteBuffer item : items) while (item.hasRemaining()) item.put((byte) 'a');
    for (ByteBuffer item : items) item.clear();
    Outgoing message = new Outgoing();
    AtomicReference<Throwable> wrong = new AtomicReference<>();
    Thread sender =
        user(wrong, () -> client.send(roomy.id(), message, LIMIT, TimeUnit.SECONDS), 20_000);
    Thread filler =
        thread(
            () -> {
              for (int count = 0; sender.isAlive(); ++count)
                message.clear().add(items[count % items.length], ItemKind.SHORT);
            });
    while (sender.isAlive()) {
      try (Message received = roomy.receive(1, TimeUnit.MILLISECONDS)) {
        if (received == null || received.itemCount() == 0) continue;
        ByteBuffer item = received.item(0);
        while (item.hasRemaining()) {
          byte each = item.get(); // 0: memory of the message that was never written
          assertTrue(each == 'a' || each == 0, "byte " + each);
        }
      }
    }
    filler.join();
    if (wrong.get() != null) throw new AssertionError(wrong.get());
  }

  /** Threads use everything while others close it, in any order. */
  @Test
  void everythingMayBeClosedWhileItIsUsed() throws Exception {
    AtomicReference<Throwable> wrong = new AtomicReference<>();
    for (int round = 0; round < 25; ++round) {
      Ripc one = context();
      Ripc other = context();
      Service left = one.register();
      Service right = other.register().lending(round % 2 == 0);
      RipcSelector selector = RipcSelector.open();
      selector.register(right, null);
      List<Thread> threads = new ArrayList<>();
      for (int number = 0; number < 3; ++number)
        threads.add(user(wrong, () -> use(one, left, right.id())));
      threads.add(
          user(
              wrong,
              () -> {
                right.post(new ReceiveWindow(ByteBuffer.allocateDirect(20_000)));
                selector.select(1, TimeUnit.MILLISECONDS);
                Message message = right.receive(1, TimeUnit.MILLISECONDS);
                if (message == null) return;
                if (message.itemCount() > 0 && message.status(0) == Status.OK)
                  message.item(0).get(0);
                if (ThreadLocalRandom.current().nextInt(4) > 0) message.close();
              }));
      Thread.sleep(5 + new Random(round).nextInt(10));
      List<Runnable> closers =
          new ArrayList<>(
              List.of(
                  left::close,
                  right::close,
                  one::close,
                  other::close,
                  selector::close,
                  one::close));
      java.util.Collections.shuffle(closers, new Random(round));
      for (Runnable closer : closers) threads.add(user(wrong, closer::run, 1));
      for (Thread each : threads) each.join();
    }
    if (wrong.get() != null) throw new AssertionError(wrong.get());
  }

  private void use(Ripc ripc, Service service, ServiceId to) throws Exception {
    ByteBuffer source = pattern(20_000, 1);
    switch (ThreadLocalRandom.current().nextInt(6)) {
      case 0 -> service.send(to, new Outgoing().add(source, ItemKind.LONG)).cancel(true);
      case 1 -> useLease(ripc);
      case 2 ->
          service.send(to, new Outgoing().attach(new ReturnBuffer(ByteBuffer.allocateDirect(100))));
      case 3 -> service.unregister(service.register((from, items) -> {}));
      case 4 -> service.shortLimit(to, 1);
      default -> service.send(to, bytes("short"));
    }
  }

  private static void useLease(Ripc ripc) {
    try (RegisteredBuffer buffer = ripc.lease(20_000)) {
      buffer.buffer().put(0, (byte) 1);
    }
  }

  private Thread user(AtomicReference<Throwable> wrong, ThrowingRunnable body) {
    return user(wrong, body, Integer.MAX_VALUE);
  }

  // Runs the body until an object that it uses is closed.
  private Thread user(AtomicReference<Throwable> wrong, ThrowingRunnable body, int times) {
    return thread(
        () -> {
          for (int count = 0; count < times; ++count) {
            try {
              body.run();
            } catch (RipcException.Closed | RipcException.PeerDead | RipcException.NoService gone) {
              return;
            } catch (RipcException.NoRoom | IllegalStateException full) {
              Thread.yield();
            } catch (RipcException other) {
              if (other.status() != Status.LIMIT && other.status() != Status.NO_MEMORY)
                wrong.set(other);
              if (other.status() != Status.LIMIT) return;
            } catch (Throwable thrown) {
              wrong.set(thrown);
              return;
            }
          }
        });
  }
}
