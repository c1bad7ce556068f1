// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import org.junit.jupiter.api.Test;

/** A peer in another JVM that is killed with SIGKILL. */
class PeerDeathTest extends PairTest {
  private static final ServiceId PEER = ServiceId.of(77);

  private PeerProcess registered() {
    PeerProcess peer = peer();
    assertEquals("OK", peer.call("register", "77"));
    return peer;
  }

  @Test
  void aKilledPeerEndsTicketsAndTheNextOneAnswers() throws Exception {
    try (PeerProcess peer = registered()) {
      Ticket ticket = client.send(PEER, new Outgoing().add(pattern(200_000, 1), ItemKind.LONG));
      peer.kill();
      assertEquals(Status.PEER_DEAD, finalStatus(ticket));
      assertTrue(
          eventually(
              () -> {
                try {
                  client.send(PEER, bytes("anybody"));
                  return false;
                } catch (RipcException.NoService | RipcException.PeerDead gone) {
                  return true;
                }
              }));
    }
    try (PeerProcess next = registered()) {
      client.send(PEER, bytes("hello"));
      assertEquals("1 5", next.call("receive"));
      assertEquals("OK", next.call("reply", "there"));
      assertEquals("there", receiveText(client));
    }
  }

  @Test
  void aKilledPeersMessageStaysReadable() throws Exception {
    server.lending(true);
    try (PeerProcess peer = registered()) {
      assertEquals(
          "OK", peer.call("send_long", String.valueOf(server.id().value()), "3000000", "5"));
      try (Message message = receive(server)) {
        assertEquals(pattern(3_000_000, 5), message.item(0));
        peer.kill();
        ByteBuffer copy = ByteBuffer.allocateDirect(3_000_000);
        assertEquals(
            3_000_000,
            message.copyTo(0, 0, copy),
            "what is lent stays until the message is closed");
        assertEquals(pattern(3_000_000, 5), copy.flip());
      }
    }
  }

  @Test
  void aBorrowedItemStaysReadableAfterItsMessageItsSenderAndItsContext() throws Exception {
    server.lending(true);
    ByteBuffer borrowed;
    try (PeerProcess peer = registered()) {
      assertEquals(
          "OK", peer.call("send_long", String.valueOf(server.id().value()), "3000000", "5"));
      try (Message message = receive(server)) {
        borrowed = message.borrow(0).slice();
      }
      peer.kill();
    }
    server.close();
    serverContext.close();
    long sum = 0;
    for (int index = 0; index < borrowed.limit(); ++index) sum += borrowed.get(index);
    if (isShm()) assertEquals(pattern(3_000_000, 5), borrowed, "nobody is there to change it");
    assertTrue(borrowed.isReadOnly(), "read to the end: " + sum);
  }

  @Test
  void aRequestToAKilledPeerGivesItsBuffersBackWhenItIsCancelled() throws Exception {
    ReturnBuffer buffer = new ReturnBuffer(clientContext.lease(1000));
    try (PeerProcess peer = registered()) {
      Outgoing request = new Outgoing().attach(buffer);
      client.send(PEER, request);
      peer.kill();
      client.cancelRequest(request.requestId());
      assertFalse(buffer.isAttached());
    }
  }

  @Test
  void longItemsTravelBetweenProcesses() throws Exception {
    try (PeerProcess peer = registered()) {
      assertEquals("OK", peer.call("post", "500000"));
      Ticket ticket = client.send(PEER, new Outgoing().add(pattern(500_000, 2), ItemKind.LONG));
      assertEquals("1 500000", peer.call("receive"));
      assertEquals(Status.OK, finalStatus(ticket));
      server.post(new ReceiveWindow(serverContext.lease(400_000)));
      assertEquals(
          "OK", peer.call("send_long", String.valueOf(server.id().value()), "400000", "3"));
      try (Message message = receive(server)) {
        assertEquals(pattern(400_000, 3), message.item(0));
      }
      assertEquals("OK", peer.call("wait"));
    }
  }

  @Test
  void waitRoomEndsWhenThePeerDies() throws Exception {
    try (PeerProcess peer = registered()) {
      while (client.trySend(PEER, new Outgoing()) != null) {}
      Thread killer = thread(peer::kill);
      RipcException end =
          assertThrows(
              RipcException.class,
              () -> {
                while (client.waitRoom(PEER, LIMIT, java.util.concurrent.TimeUnit.SECONDS)) {}
              });
      killer.join();
      assertTrue(
          end.status() == Status.PEER_DEAD || end.status() == Status.NO_SERVICE, end.toString());
    }
  }
}
