// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Each counter is under its name. */
class StatisticsTest extends PairTest {
  @Test
  void messagesAreCountedOnBothSides() throws Exception {
    for (int count = 0; count < 5; ++count)
      client.send(server.id(), new Outgoing().add(bytes("12345")).add(bytes("12345")));
    server.post(new ReceiveWindow(ByteBuffer.allocateDirect(70_000)));
    Outgoing message = new Outgoing().add(bytes("12345")).add(pattern(70_000, 1), ItemKind.LONG);
    client.send(server.id(), message);
    client.send(server.id(), message);
    for (int count = 0; count < 7; ++count) receive(server).close();
    client.send(server.id(), message);
    server.lending(true);
    receive(server).close();

    ServiceStatistics sent = client.statistics();
    assertEquals(8, sent.messagesSent());
    assertEquals(0, sent.messagesReceived());
    assertEquals(65, sent.shortBytesSent());
    assertEquals(0, sent.shortBytesReceived());
    assertEquals(3, sent.longItemsSent());
    assertEquals(1, sent.resolutions());
    assertEquals(0, sent.senders());
    ServiceStatistics received = server.statistics();
    assertEquals(0, received.messagesSent());
    assertEquals(8, received.messagesReceived());
    assertEquals(0, received.shortBytesSent());
    assertEquals(65, received.shortBytesReceived());
    assertEquals(0, received.longItemsSent());
    assertEquals(2, received.longItemsReceived(), "in a window and lent");
    assertEquals(140_000, received.longBytesReceived());
    assertEquals(1, received.itemsLent());
    assertEquals(0, received.itemsReturned());
    assertEquals(1, received.itemsDiscarded());
    assertEquals(1, received.senders());
    assertEquals(0, received.packetsLost());
    assertEquals(0, received.packetsCorrupt());
    if (isShm()) assertTrue(received.payloadCopies() > 0);
  }

  @Test
  void railsAreToldByTheirInterfaces() throws Exception {
    server.post(new ReceiveWindow(ByteBuffer.allocateDirect(300_000)));
    client.send(server.id(), new Outgoing().add(pattern(300_000, 1), ItemKind.LONG));
    receive(server).close();
    List<RailInfo> rails = serverContext.rails(client.id());
    if (isShm()) {
      assertTrue(rails.isEmpty());
      return;
    }
    assertEquals(1, rails.size());
    assertFalse(rails.get(0).device().isEmpty());
    assertFalse(rails.get(0).local().isEmpty());
    assertFalse(rails.get(0).peer().isEmpty());
    assertTrue(rails.get(0).bytesReceived() >= 300_000);
    assertTrue(rails.get(0).bytesSent() < 300_000);
    assertEquals(0, rails.get(0).spare());
    assertTrue(rails.get(0).connections() > 0);
  }

  @Test
  void repliesNotificationsAndFullPeersAreCounted() throws Exception {
    client.send(server.id(), new Outgoing().attach(new ReturnBuffer(ByteBuffer.allocateDirect(9))));
    try (Message asked = receive(server)) {
      server.reply(asked, new Outgoing().addReturn(bytes("returned"), 0));
    }
    receive(client).close();
    assertEquals(1, server.statistics().itemsReturned());

    Notification notification = server.register((source, items) -> {});
    client.notify(notification);
    assertTrue(eventually(() -> server.statistics().notificationsRun() == 1));
    server.unregister(notification);
    client.notify(notification);
    client.notify(notification);
    assertTrue(eventually(() -> server.statistics().notificationsUnknown() == 2));
    assertEquals(3, client.statistics().notificationsSent());

    Service small = serverContext.service().queueMessages(16).register();
    while (client.trySend(small.id(), new Outgoing()) != null) {}
    assertEquals(1, client.statistics().again());

    long before = server.statistics().sleeps();
    Thread receiver = thread(() -> receive(server).close());
    assertTrue(eventually(() -> server.statistics().sleeps() > before));
    client.send(server.id(), bytes("wake up"), 1);
    receiver.join();
    if (isShm()) assertTrue(client.statistics().wakesSent() > 0);
  }

  @Test
  void thePoolIsCounted() {
    try (Ripc ripc = context(options -> options.keepReleased(0).poolLimit(64 << 20))) {
      PoolStatistics before = ripc.poolStatistics();
      assertEquals(64 << 20, before.limit());
      RegisteredBuffer buffer = ripc.lease(3 << 20);
      PoolStatistics leased = ripc.poolStatistics();
      assertTrue(leased.inUse() > 0);
      assertEquals(before.leases() + 1, leased.leases());
      assertTrue(leased.leased() >= before.leased() + (3 << 20));
      assertTrue(leased.reserved() >= leased.leased());
      assertTrue(leased.arenas() > 0);
      assertEquals(before.releases(), leased.releases());
      buffer.close();
      ripc.lease(3 << 20).close();
      PoolStatistics after = ripc.poolStatistics();
      assertEquals(0, after.inUse());
      assertEquals(before.releases() + 2, after.releases());
      assertEquals(before.reuses() + 1, after.reuses());
      assertEquals(before.leased(), after.leased());
      assertEquals(0, after.failures());
      assertEquals(0, after.registrations());
      assertEquals(0, after.registrationHits());
    }
  }
}
