// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.ReferenceQueue;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.libripc.internal.Leaks;

/** Objects that the application loses without closing them are closed and reported. */
class LostTest extends PairTest {
  /** Collects garbage until the cleaner has got some of it. Returns the cleaner's thread. */
  private static Thread collect() throws Exception {
    CompletableFuture<Thread> cleaner = new CompletableFuture<>();
    loseMark(cleaner);
    System.gc();
    return cleaner.get(LIMIT, TimeUnit.SECONDS);
  }

  private static void loseMark(CompletableFuture<Thread> cleaner) {
    Leaks.CLEANER.register(new Object(), () -> cleaner.complete(Thread.currentThread()));
  }

  private static boolean isIdle(Thread cleaner) {
    return Stream.of(cleaner.getStackTrace())
        .anyMatch(frame -> frame.getClassName().equals(ReferenceQueue.class.getName()));
  }

  /**
   * Returns the number of reports once everything is reported that this test and earlier ones have
   * lost by now. The JVM hands on what a second collection finds only after all that the first one
   * found.
   */
  private static long reported() {
    try {
      for (long before = Ripc.leaksReported(); ; ) {
        collect();
        Thread cleaner = collect();
        assertTrue(eventually(() -> isIdle(cleaner)));
        long now = Ripc.leaksReported();
        if (now == before) return now;
        before = now;
      }
    } catch (Exception stuck) {
      throw new AssertionError(stuck);
    }
  }

  private static void assertReported(long count) throws InterruptedException {
    // The stack frame that has lost an object may keep it a little longer.
    eventually(() -> reported() >= count);
    assertEquals(count, Ripc.leaksReported());
  }

  private boolean isThere(ServiceId id) {
    return clientContext.services().stream().anyMatch(each -> each.id().equals(id));
  }

  private static ServiceId lose(Ripc ripc) {
    return ripc.register().id();
  }

  @Test
  void aService() throws Exception {
    long reported = reported();
    ServiceId id = lose(serverContext);
    assertReported(reported + 1);
    assertFalse(isThere(id));
    assertThrows(RipcException.class, () -> client.send(id, bytes("hello")));
  }

  /** Loses a service that has everything that a service can have. */
  private ServiceId loseMany(ReceiveWindow window, ReturnBuffer returned) throws Exception {
    Service service = serverContext.service().name("lost-" + transport).register();
    service.post(window);
    service.join(ServiceId.ofGroup(1));
    service.unregister(service.register((source, items) -> {}));
    service.send(client.id(), new Outgoing().attach(returned));
    service.send(client.id(), new Outgoing().quiet().borrow(ByteBuffer.allocateDirect(100)));
    RipcSelector.open().register(service, null);
    // The second message is fetched with the first one.
    client.send(service.id(), bytes("first"));
    client.send(
        service.id(), new Outgoing().attach(new ReturnBuffer(ByteBuffer.allocateDirect(9))));
    service.batch(4, 1000);
    receive(service).close();
    return service.id();
  }

  @Test
  void aServiceWithWindowsReturnBuffersTicketsMessagesAndASelector() throws Exception {
    long reported = reported();
    ReceiveWindow window = new ReceiveWindow(ByteBuffer.allocateDirect(100));
    ReturnBuffer returned = new ReturnBuffer(ByteBuffer.allocateDirect(100));
    ServiceId id = loseMany(window, returned);
    assertReported(reported + 2); // with its selector
    assertFalse(isThere(id));
    assertFalse(window.isPosted());
    assertFalse(returned.isAttached());
    try (Service again = serverContext.service().name("lost-" + transport).register()) {
      again.post(window);
    }
  }

  private ServiceId loseContext() {
    Ripc lost = context();
    lost.lease(100_000);
    lost.post(new ReceiveWindow(lost.lease(5000)));
    lost.registerMemory(ByteBuffer.allocateDirect(100));
    return lose(lost);
  }

  @Test
  void aContextWithServicesLeasesAndWindows() throws Exception {
    long reported = reported();
    ServiceId id = loseContext();
    assertReported(reported + 5);
    assertFalse(isThere(id));
  }

  // The collector may find a context before the objects that belong to it.
  @Test
  void allServicesOfManyContexts() throws Exception {
    int count = 20;
    long reported = reported();
    for (int each = 0; each < count; ++each) lose(context());
    assertReported(reported + 2 * count);
  }

  private void loseMessage() throws Exception {
    Ripc lost = context();
    Service service = lost.register();
    client.send(
        service.id(), new Outgoing().attach(new ReturnBuffer(ByteBuffer.allocateDirect(9))));
    receive(service);
  }

  @Test
  void messagesOfManyContexts() throws Exception {
    int count = 10;
    long reported = reported();
    for (int each = 0; each < count; ++each) loseMessage();
    assertReported(reported + 3 * count);
  }

  @Test
  void closedObjectsAreNotReported() throws Exception {
    long reported = reported();
    for (int count = 0; count < 10; ++count) {
      try (Ripc ripc = context();
          RipcSelector selector = RipcSelector.open()) {
        selector.register(ripc.register(), null); // closed with its context
      }
    }
    lose(serverContext);
    assertReported(reported + 1);
  }

  @Test
  void notAServiceThatPeersMayCall() throws Exception {
    long reported = reported();
    CompletableFuture<String> told = new CompletableFuture<>();
    Notification notification =
        serverContext.register().register((source, items) -> told.complete(text(items.get(0))));
    lose(serverContext);
    assertReported(reported + 1);
    client.notify(notification, bytes("hello"));
    assertEquals("hello", told.get(LIMIT, TimeUnit.SECONDS));
  }

  @Test
  void notAServiceWhoseMessageTravels() throws Exception {
    long reported = reported();
    Ticket ticket =
        clientContext
            .register()
            .send(server.id(), new Outgoing().borrow(ByteBuffer.allocateDirect(100)));
    lose(serverContext);
    assertReported(reported + 1);
    server.post(new ReceiveWindow(ByteBuffer.allocateDirect(100)));
    receive(server).close();
    ticket.get(LIMIT, TimeUnit.SECONDS);
    assertReported(reported + 2);
  }

  @Test
  void notAServiceThatSomebodyWaitsIn() throws Exception {
    long reported = reported();
    CompletableFuture<ServiceId> id = new CompletableFuture<>();
    CompletableFuture<String> received = new CompletableFuture<>();
    thread(
        () -> {
          try (Message message = told(serverContext.register(), id).receive()) {
            received.complete(text(message.item(0)));
          }
        });
    id.get(LIMIT, TimeUnit.SECONDS);
    lose(serverContext);
    assertReported(reported + 1);
    client.send(id.get(), bytes("hello"));
    assertEquals("hello", received.get(LIMIT, TimeUnit.SECONDS));
  }

  private static Service told(Service service, CompletableFuture<ServiceId> id) {
    id.complete(service.id());
    return service;
  }

  private static final class Entries extends Handler {
    final ConcurrentLinkedQueue<String> texts = new ConcurrentLinkedQueue<>();

    @Override
    public void publish(LogRecord entry) {
      texts.add(entry.getMessage());
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}

    /** The number of lost objects in all entries; an entry is about one object, or has counts. */
    int counted() {
      return texts.stream().mapToInt(Entries::countedIn).sum();
    }

    private static int countedIn(String text) {
      if (text.startsWith("A ")) return 1;
      Matcher counts = Pattern.compile("(\\d+) [A-Z]").matcher(text);
      return counts.results().mapToInt(each -> Integer.parseInt(each.group(1))).sum();
    }
  }

  @Test
  void theLogHasOneEntryASecondThatCountsTheOthersAndSaysWhereToLook() throws Exception {
    Logger logger = Logger.getLogger("org.libripc");
    Entries entries = new Entries();
    logger.addHandler(entries);
    try {
      long reported = reported();
      long started = System.nanoTime();
      IntStream.range(0, 1000).forEach(each -> clientContext.lease(10));
      assertReported(reported + 1000);
      assertTrue(eventually(() -> entries.counted() >= 1000));
      long seconds = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - started);
      assertTrue(entries.texts.size() <= seconds + 2, entries.texts::toString);
      for (String text : List.copyOf(entries.texts))
        assertTrue(
            text.contains("org.libripc.leaks.traces") && text.contains("docs/java.md"), text);
    } finally {
      logger.removeHandler(entries);
    }
  }
}
