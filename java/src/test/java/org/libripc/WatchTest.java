// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** Waiting for a service, and being told when it ends. */
class WatchTest extends PairTest {
  private record Event(Status status, ServiceInfo info) {}

  private final BlockingQueue<Event> events = new LinkedBlockingQueue<>();

  private Event next() throws InterruptedException {
    Event event = events.poll(LIMIT, TimeUnit.SECONDS);
    assertNotNull(event, "the watch tells nothing");
    return event;
  }

  @Test
  void aServiceIsToldOfWhenItAppearsAndWhenItEnds() throws Exception {
    ServiceId id = ServiceId.ofName("watched");
    try (ServiceWatch watch =
        clientContext.watch(id, (status, info) -> events.add(new Event(status, info)))) {
      assertNotNull(watch);
      for (int round = 0; round < 2; ++round) {
        Service service = serverContext.service().name("watched").register();
        Event appeared = next();
        assertEquals(Status.OK, appeared.status());
        assertEquals("watched", appeared.info().name());
        assertEquals(service.incarnation(), appeared.info().incarnation());
        service.close();
        Event ended = next();
        assertEquals(Status.CLOSED, ended.status());
        assertEquals(appeared.info().incarnation(), ended.info().incarnation());
      }
    }
    assertTrue(eventually(() -> Callbacks.waiting() == 0), "a closed watch is forgotten");
  }

  @Test
  void aWatcherMayCloseItsWatchAndTheContextClosesTheOthers() throws Exception {
    CompletableFuture<ServiceWatch> own = new CompletableFuture<>();
    own.complete(
        clientContext.watch(
            server.id(),
            (status, info) -> {
              own.join().close();
              events.add(new Event(status, info));
            }));
    assertEquals(Status.OK, next().status());
    ServiceWatch left = clientContext.watch(client.id(), (status, info) -> {});
    clientContext.close();
    assertTrue(eventually(() -> Callbacks.waiting() == 0));
    left.close();
    assertThrows(
        RipcException.Closed.class, () -> clientContext.watch(server.id(), (status, info) -> {}));
  }

  @Test
  void aWaitEndsWhenTheServiceAppearsAndTheNextSendFindsIt() throws Exception {
    assertEquals(server.id(), clientContext.waitService(server.id(), 0, TimeUnit.SECONDS).id());
    AtomicReference<Throwable> thrown = new AtomicReference<>();
    Thread waiter =
        new Thread(
            () -> {
              try {
                ServiceInfo found = clientContext.waitService("late", LIMIT, TimeUnit.SECONDS);
                client.send(found.id(), bytes("hello"));
              } catch (Throwable problem) {
                thrown.set(problem);
              }
            });
    waiter.start();
    try (Service late = serverContext.service().name("late").register()) {
      assertEquals("hello", receiveText(late));
    }
    waiter.join();
    assertEquals(null, thrown.get());
  }

  @Test
  void aWaitEndsWithTheTimeTheThreadsInterruptOrTheContext() throws Exception {
    ServiceId nobody = ServiceId.ofName("nobody");
    assertThrows(
        RipcException.NoService.class,
        () -> clientContext.waitService(nobody, 10, TimeUnit.MILLISECONDS));
    Thread.currentThread().interrupt();
    assertThrows(
        InterruptedException.class,
        () -> clientContext.waitService(nobody, LIMIT, TimeUnit.SECONDS));
    AtomicReference<Throwable> thrown = new AtomicReference<>();
    Thread waiter =
        new Thread(
            () -> {
              try {
                clientContext.waitService(nobody, LIMIT, TimeUnit.SECONDS);
              } catch (Throwable problem) {
                thrown.set(problem);
              }
            });
    waiter.start();
    assertTrue(eventually(() -> Callbacks.waiting() == 1));
    clientContext.close();
    waiter.join();
    assertTrue(thrown.get() instanceof RipcException.Closed, () -> "" + thrown.get());
  }

  @Test
  void aNameIsWhatUtf8CanSay() {
    for (String name : new String[] {"\ud800", "a\udc00b", "\ud800\ud800", "\u0085", "a\nb"}) {
      assertThrows(RuntimeException.class, () -> ServiceId.ofName(name));
      assertThrows(RuntimeException.class, () -> ServiceId.ofGroup(name));
      assertThrows(RuntimeException.class, () -> serverContext.service().name(name));
    }
    ServiceId.ofName("\ud83d\ude00");
  }
}
