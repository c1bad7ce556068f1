// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

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
  void aTextThatCWouldCutIsRefused() {
    assertThrows(
        IllegalArgumentException.class,
        () -> context(options -> options.transports(transport + "\0,none")).close());
    RipcBuilder cut = Ripc.builder().zookeeper("localhost:2181\0,other:2181");
    assertThrows(IllegalArgumentException.class, cut::diagnose);
  }

  @Test
  void countsOfAServiceArePositive() {
    for (int count : new int[] {0, -1}) {
      assertThrows(IllegalArgumentException.class, () -> serverContext.service().maxSenders(count));
      assertThrows(
          IllegalArgumentException.class, () -> serverContext.service().maxMessages(count));
    }
  }

  @Test
  void aContextSaysHowLongItSpins() {
    try (Ripc sleeping = context(options -> options.spin(0, TimeUnit.NANOSECONDS));
        Ripc spinning = context(options -> options.spin(3, TimeUnit.MILLISECONDS))) {
      assertEquals(0, sleeping.spinNanos());
      assertEquals(3_000_000, spinning.spinNanos());
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
  void aFileNamesServicesThatNoResolverFinds(@TempDir Path elsewhere) throws Exception {
    assumeTrue(isShm(), "other transports have no address that is known beforehand");
    Path file = directory.resolve("known");
    Files.writeString(file, "printer shm:" + elsewhere + "\n");
    try (Ripc far = context(options -> options.runtimeDirectory(elsewhere));
        Ripc knowing = context(options -> options.staticResolver(file))) {
      Service printer = far.service().name("printer").register();
      knowing.register().send(printer.id(), bytes("hello"));
      assertEquals("hello", receiveText(printer));
      assertThrows(
          RipcException.NoService.class, () -> client.send(printer.id(), bytes("not to me")));
    }
    Files.writeString(file, "this is no address\n");
    RipcException broken =
        assertThrows(
            RipcException.class,
            () -> {
              try (Ripc knowing = context(options -> options.staticResolver(file))) {
                knowing.resolve("printer");
              }
            });
    assertTrue(broken.getMessage().contains(file.toString()), broken.getMessage());
  }

  @Test
  void theOptionsAreDiagnosedToo() {
    List<Finding> findings =
        Ripc.builder().runtimeDirectory(directory.resolve("missing/one")).diagnose();
    assertTrue(
        findings.stream()
            .anyMatch(finding -> finding.level() == 2 && finding.text().contains("missing/one")),
        findings::toString);
    for (Finding each : findings) assertFalse(each.subject().isEmpty(), each::toString);
  }

  @Test
  void aMessageHasUpTo64ItemsAnd16ReturnBuffers() throws Exception {
    Outgoing message = new Outgoing();
    for (int index = 0; index < 64; ++index) message.add(bytes("i" + index));
    assertThrows(IllegalStateException.class, () -> message.add(bytes("one more")));
    for (int index = 0; index < 16; ++index)
      message.attach(new ReturnBuffer(ByteBuffer.allocateDirect(10)));
    assertThrows(
        IllegalStateException.class,
        () -> message.attach(new ReturnBuffer(ByteBuffer.allocateDirect(10))));
    Service roomy = serverContext.service().queueBytes(1 << 16).register();
    client.send(roomy.id(), message);
    try (Message received = receive(roomy)) {
      assertEquals(64, received.itemCount());
      assertEquals("i63", text(received.item(63)));
      assertEquals(16, received.returnCount());
    }
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
