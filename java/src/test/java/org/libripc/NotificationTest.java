// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Notifications, and what callbacks may do. */
class NotificationTest extends PairTest {
  @Test
  @Tag("verbs")
  void aNotificationRunsTheHandlerWithItsArguments() throws Exception {
    BlockingQueue<List<ByteBuffer>> came = new LinkedBlockingQueue<>();
    AtomicReference<ServiceId> source = new AtomicReference<>();
    Notification notification =
        server.register(
            (from, items) -> {
              source.set(from);
              came.add(items);
            });
    assertEquals(server.id(), notification.service());
    for (int round = 0; round < 100; ++round) {
      client.notify(notification, bytes("round " + round), pattern(800, round));
      List<ByteBuffer> items = came.poll(LIMIT, TimeUnit.SECONDS);
      assertEquals("round " + round, text(items.get(0)));
      assertEquals(pattern(800, round), items.get(1));
    }
    assertEquals(client.id(), source.get());
    assertTrue(server.statistics().notificationsRun() >= 100);
  }

  @Test
  @Tag("verbs")
  void afterUnregisterTheHandlerNeverRuns() throws Exception {
    AtomicInteger runs = new AtomicInteger();
    Notification notification = server.register((source, items) -> runs.incrementAndGet());
    client.notify(notification);
    assertTrue(eventually(() -> runs.get() == 1));
    server.unregister(notification);
    client.notify(notification);
    assertTrue(eventually(() -> server.statistics().notificationsUnknown() == 1));
    assertEquals(1, runs.get());
    assertThrows(RipcException.class, () -> server.unregister(notification));
  }

  @Test
  void exceptionsOfAHandlerGoToTheUncaughtExceptionHandler() throws Exception {
    AtomicReference<Throwable> caught = new AtomicReference<>();
    AtomicInteger runs = new AtomicInteger();
    Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
    Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> caught.set(thrown));
    try {
      Notification notification =
          server.register(
              (source, items) -> {
                runs.incrementAndGet();
                throw new IllegalStateException("meant to be");
              });
      client.notify(notification);
      assertTrue(eventually(() -> caught.get() instanceof IllegalStateException));
      client.notify(notification);
      assertTrue(eventually(() -> runs.get() == 2), "the context goes on");
    } finally {
      Thread.setDefaultUncaughtExceptionHandler(before);
    }
  }

  @Test
  void aHandlerMaySendAndUnregisterItself() throws Exception {
    AtomicReference<Notification> own = new AtomicReference<>();
    own.set(
        server.register(
            (source, items) -> {
              server.send(source, bytes("noticed"));
              server.unregister(own.get());
            }));
    client.notify(own.get());
    assertEquals("noticed", receiveText(client));
  }

  @Test
  void aHandlerMayCloseItsServiceAndItsContext() throws Exception {
    Notification closesService = server.register((source, items) -> server.close());
    client.notify(closesService);
    assertTrue(eventually(() -> server.isClosed()));
    assertThrows(RipcException.Closed.class, () -> server.poll());
    Service second = serverContext.register();
    Notification closesContext = second.register((source, items) -> serverContext.close());
    client.notify(closesContext);
    assertTrue(eventually(second::isClosed));
    assertThrows(RipcException.Closed.class, serverContext::register);
  }

  @Test
  void aHandlerMayCloseAServiceInWhichAnotherThreadWaits() throws Exception {
    Thread receiver =
        thread(() -> assertThrows(RipcException.Closed.class, () -> server.receive()));
    Notification notification =
        serverContext.register().register((source, items) -> server.close());
    client.notify(notification);
    receiver.join(TimeUnit.SECONDS.toMillis(LIMIT));
    assertNull(receiver.isAlive() ? receiver : null);
  }
}
