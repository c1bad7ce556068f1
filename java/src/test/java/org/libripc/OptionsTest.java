// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** What the options of contexts and services do. */
class OptionsTest extends PairTest {
  @Test
  void maxSendersBoundsTheQueuesHeldAtOnce() {
    Service narrow = serverContext.service().maxSenders(1).register();
    try (Ripc third = context()) {
      Service other = third.register();
      client.send(narrow.id(), bytes("one"));
      RipcException refused =
          assertThrows(RipcException.class, () -> other.send(narrow.id(), bytes("two")));
      assertEquals(Status.REFUSED, refused.status());
      client.send(narrow.id(), bytes("three"));
      assertEquals(1, narrow.statistics().senders());
    }
  }

  @Test
  void maxPeersBoundsTheConnectedProcesses() {
    try (Ripc small = context(options -> options.maxPeers(1));
        Ripc third = context()) {
      Service service = small.register();
      Service other = third.register();
      client.send(service.id(), bytes("one"));
      RipcException refused =
          assertThrows(RipcException.class, () -> other.send(service.id(), bytes("two")));
      assertEquals(Status.REFUSED, refused.status());
      client.send(service.id(), bytes("three"));
    }
  }

  @Test
  void maxMessagesBoundsTheRequestsThatAreHeld() throws Exception {
    Service small = serverContext.service().maxMessages(2).register();
    for (int tag = 0; tag < 3; ++tag) {
      ReturnBuffer buffer = new ReturnBuffer(ByteBuffer.allocateDirect(100));
      client.send(small.id(), new Outgoing().tag(tag).attach(buffer));
    }
    Message first = receive(small);
    try (Message second = receive(small)) {
      assertEquals(1, second.tag());
      RipcException limit =
          assertThrows(RipcException.class, () -> small.receive(LIMIT, TimeUnit.SECONDS));
      assertEquals(Status.LIMIT, limit.status());
      first.close();
      try (Message third = receive(small)) {
        assertEquals(2, third.tag(), "nothing was lost");
      }
    }
  }

  @Test
  void everyPolicyTalksToProcessesOfTheSameUser() throws Exception {
    for (RipcBuilder.Peers policy : RipcBuilder.Peers.values()) {
      try (Ripc admitting = context(options -> options.peers(policy))) {
        Service service = admitting.register();
        client.send(service.id(), bytes(policy.toString()));
        assertEquals(policy.toString(), receiveText(service));
      }
    }
  }

  /** The hash of names is the same everywhere and for ever. */
  @Test
  void twoNamesOfOneIdAreDetected() {
    assertEquals(ServiceId.ofName("jyzjvnol"), ServiceId.ofName("wxbnqkyn"));
    serverContext.service().name("jyzjvnol").register();
    RipcException collision =
        assertThrows(
            RipcException.class, () -> clientContext.service().name("wxbnqkyn").register());
    assertEquals(Status.NAME_COLLISION, collision.status());
    collision = assertThrows(RipcException.class, () -> clientContext.resolve("wxbnqkyn"));
    assertEquals(Status.NAME_COLLISION, collision.status());
    assertEquals("jyzjvnol", clientContext.resolve("jyzjvnol").name());
  }

  @Test
  void keepReleasedBoundsWhatThePoolKeeps() {
    try (Ripc frugal = context(options -> options.keepReleased(0))) {
      long leases = frugal.poolStatistics().leases();
      for (int count = 0; count < 3; ++count) frugal.lease(10_000).close();
      PoolStatistics pool = frugal.poolStatistics();
      assertEquals(leases + 3, pool.leases());
      assertEquals(3, pool.releases());
      assertEquals(0, pool.leased());
    }
  }

  @Test
  void aServiceSendsToItself() throws Exception {
    client.post(new ReceiveWindow(ByteBuffer.allocateDirect(50_000)));
    Ticket ticket = client.send(client.id(), new Outgoing().add(pattern(50_000, 1), ItemKind.LONG));
    client.send(client.id(), bytes("short"));
    try (Message message = receive(client)) {
      assertEquals(client.id(), message.source());
      assertEquals(pattern(50_000, 1), message.item(0));
    }
    assertEquals(Status.OK, finalStatus(ticket));
    assertEquals("short", receiveText(client));
  }
}
