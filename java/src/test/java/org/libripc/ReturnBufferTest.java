// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Requests with return buffers, and their replies. */
class ReturnBufferTest extends PairTest {
  @Test
  @Tag("verbs")
  void aReplyIsWrittenIntoTheReturnBuffer() throws Exception {
    ReturnBuffer buffer = new ReturnBuffer(clientContext.lease(100_000));
    ReturnBuffer other = new ReturnBuffer(ByteBuffer.allocateDirect(10));
    Outgoing request = new Outgoing().add(bytes("please")).attach(buffer).attach(other);
    client.send(server.id(), request);
    assertTrue(buffer.isAttached());
    assertThrows(
        IllegalStateException.class, () -> client.send(server.id(), request), "it is under way");
    Ticket ticket;
    try (Message asked = receive(server)) {
      assertEquals(2, asked.returnCount());
      assertEquals(100_000, asked.returnSize(0));
      assertEquals(10, asked.returnSize(1));
      Outgoing reply = new Outgoing().tag(5).add(bytes("here")).addReturn(pattern(70_000, 1), 0);
      ticket = server.reply(asked, reply);
    }
    try (Message answer = receive(client)) {
      assertEquals(request.requestId(), answer.inReplyTo());
      assertEquals(5, answer.tag());
      assertEquals("here", text(answer.item(0)));
      assertEquals(ViewKind.RETURNED, answer.kind(1));
      assertEquals(pattern(70_000, 1), answer.item(1));
      assertEquals(pattern(70_000, 1), buffer.buffer().limit(70_000));
    }
    assertFalse(buffer.isAttached());
    assertFalse(other.isAttached(), "the right to write ends with the reply");
    assertEquals(Status.OK, finalStatus(ticket));
    client.send(server.id(), request);
    assertTrue(buffer.isAttached(), "it may be attached again");
    receive(server).close();
  }

  @Test
  void aMessageThatIsSentAgainNoLongerNamesItsLastRequestOrGroup() throws Exception {
    ServiceId group = ServiceId.ofGroup("the group");
    server.join(group);
    assertTrue(eventually(() -> !clientContext.members(group).isEmpty()));
    Outgoing message = new Outgoing().attach(new ReturnBuffer(ByteBuffer.allocateDirect(10)));
    client.send(server.id(), message);
    assertNotEquals(0, message.requestId());
    client.send(server.id(), message.clear().add(bytes("no request")));
    assertEquals(0, message.requestId());
    client.send(group, message);
    assertEquals(1, message.outcome().taken());
    client.send(server.id(), message);
    assertNull(message.outcome());
  }

  @Test
  void aReplyThatUsesNoReturnBufferAnswersTheRequestToo() throws Exception {
    ReturnBuffer buffer = new ReturnBuffer(ByteBuffer.allocateDirect(1000));
    Outgoing request = new Outgoing().attach(buffer);
    client.send(server.id(), request);
    try (Message asked = receive(server)) {
      server.reply(asked, bytes("no need"));
    }
    try (Message answer = receive(client)) {
      assertEquals(request.requestId(), answer.inReplyTo());
      assertEquals("no need", text(answer.item(0)));
    }
    assertFalse(buffer.isAttached());
  }

  @Test
  @Tag("verbs")
  void anItemTooLargeForItsReturnBufferTravelsAsAuto() throws Exception {
    client.send(
        server.id(), new Outgoing().attach(new ReturnBuffer(ByteBuffer.allocateDirect(10))));
    client.post(new ReceiveWindow(ByteBuffer.allocateDirect(100_000)));
    try (Message asked = receive(server)) {
      server.reply(asked, new Outgoing().addReturn(pattern(100_000, 2), 0));
    }
    try (Message answer = receive(client)) {
      assertEquals(ViewKind.WINDOW, answer.kind(0));
      assertEquals(pattern(100_000, 2), answer.item(0));
    }
  }

  @Test
  void aCarriedItemTooLargeForItsReturnBufferIsShort() throws Exception {
    client.send(
        server.id(), new Outgoing().attach(new ReturnBuffer(ByteBuffer.allocateDirect(10))));
    try (Message asked = receive(server)) {
      server.reply(asked, new Outgoing().addReturn(pattern(1000, 2), 0));
    }
    try (Message answer = receive(client)) {
      assertEquals(ViewKind.SHORT, answer.kind(0));
      assertEquals(pattern(1000, 2), answer.item(0));
    }
  }

  @Test
  void aReplyToAMessageWithoutReturnBuffersGoesToItsSource() throws Exception {
    client.send(server.id(), bytes("ask"));
    client.post(new ReceiveWindow(ByteBuffer.allocateDirect(50_000)));
    try (Message asked = receive(server)) {
      server.reply(asked, bytes("answer"));
      server.reply(asked, new Outgoing().addReturn(pattern(50_000, 3), 0));
    }
    assertEquals("answer", receiveText(client));
    try (Message answer = receive(client)) {
      assertEquals(0, answer.inReplyTo());
      assertEquals(pattern(50_000, 3), answer.item(0));
    }
  }

  @Test
  void aReplyIsReceivedWhileAnotherRequestIsConnecting() throws Exception {
    try (PeerProcess stopped = peer();
        Ripc patient = context(options -> options.resolveTimeout(4, TimeUnit.SECONDS))) {
      assertEquals("OK", stopped.call("register", "77"));
      stopped.stop();
      Service asking = patient.register();
      asking.send(
          server.id(), new Outgoing().attach(new ReturnBuffer(ByteBuffer.allocateDirect(100))));
      ReturnBuffer other = new ReturnBuffer(ByteBuffer.allocateDirect(100));
      Thread connecting =
          thread(
              () ->
                  assertThrows(
                      RipcException.class,
                      () -> asking.send(ServiceId.of(77), new Outgoing().attach(other))));
      assertTrue(eventually(other::isAttached));
      try (Message asked = receive(server)) {
        server.reply(asked, new Outgoing().addReturn(bytes("here"), 0));
      }
      try (Message answer = receive(asking)) {
        assertEquals("here", text(answer.item(0)));
        assertEquals(ViewKind.RETURNED, answer.kind(0));
      }
      assertTrue(connecting.isAlive(), "it does not know yet");
      stopped.kill();
      connecting.join();
      assertFalse(other.isAttached());
    }
  }

  @Test
  void manyThreadsSendRequestsWhileOneReceivesTheReplies() throws Exception {
    int each = 500;
    Thread answering =
        thread(
            () -> {
              for (int count = 0; count < 3 * each; ++count) {
                try (Message asked = receive(server)) {
                  server.reply(asked, new Outgoing().addReturn(bytes("answer"), 0));
                }
              }
            });
    Thread[] asking = new Thread[3];
    for (int number = 0; number < asking.length; ++number) {
      asking[number] =
          thread(
              () -> {
                ReturnBuffer buffer = new ReturnBuffer(ByteBuffer.allocateDirect(100));
                Outgoing request = new Outgoing().attach(buffer);
                for (int count = 0; count < each; ++count) {
                  client.send(server.id(), request, LIMIT, TimeUnit.SECONDS);
                  while (buffer.isAttached()) Thread.onSpinWait();
                }
              });
    }
    for (int count = 0; count < 3 * each; ++count) {
      try (Message answer = receive(client)) {
        assertTrue(answer.inReplyTo() != 0);
        assertEquals("answer", text(answer.item(0)));
      }
    }
    answering.join();
    for (Thread thread : asking) thread.join();
  }

  @Test
  @Tag("verbs")
  void aCancelledRequestGivesItsBuffersBack() throws Exception {
    ReturnBuffer buffer = new ReturnBuffer(ByteBuffer.allocateDirect(1000));
    Outgoing request = new Outgoing().attach(buffer);
    client.send(server.id(), request);
    client.cancelRequest(request.requestId());
    assertFalse(buffer.isAttached());
    RipcException again =
        assertThrows(RipcException.class, () -> client.cancelRequest(request.requestId()));
    assertEquals(Status.INVALID_ARGUMENT, again.status());
    try (Message asked = receive(server)) {
      Ticket ticket = server.reply(asked, new Outgoing().addReturn(pattern(1000, 4), 0));
      receive(client).close();
      finalStatus(ticket);
    }
    assertEquals(ByteBuffer.allocate(1000), buffer.buffer(), "nothing was written");
  }

  @Test
  void aClosedContextGivesItsWindowsBack() {
    ReceiveWindow unused = new ReceiveWindow(serverContext.lease(1000));
    ReceiveWindow used = new ReceiveWindow(serverContext.lease(100_000));
    serverContext.post(used);
    serverContext.post(unused);
    client.send(server.id(), new Outgoing().add(pattern(100_000, 5), ItemKind.LONG));
    assertTrue(used.isPosted() && unused.isPosted());
    serverContext.close();
    assertFalse(used.isPosted());
    assertFalse(unused.isPosted());
  }

  @Test
  void aClosedServiceGivesReturnBuffersAndWindowsBack() {
    ReturnBuffer buffer = new ReturnBuffer(clientContext.lease(1000));
    ReceiveWindow window = new ReceiveWindow(clientContext.lease(1000));
    client.post(window);
    client.send(server.id(), new Outgoing().attach(buffer));
    client.close();
    assertFalse(buffer.isAttached());
    assertFalse(window.isPosted());
  }

  @Test
  void sixteenReturnBuffersAreWrittenEachByItsIndex() throws Exception {
    ReturnBuffer[] buffers = new ReturnBuffer[16];
    Outgoing request = new Outgoing();
    for (int index = 0; index < 16; ++index) {
      buffers[index] = new ReturnBuffer(ByteBuffer.allocateDirect(100 + index));
      request.attach(buffers[index]);
    }
    ReturnBuffer oneMore = new ReturnBuffer(ByteBuffer.allocateDirect(1));
    assertThrows(IllegalStateException.class, () -> request.attach(oneMore));
    client.send(server.id(), request);
    try (Message asked = receive(server)) {
      assertEquals(16, asked.returnCount());
      Outgoing reply = new Outgoing();
      for (int index = 15; index >= 0; --index) {
        assertEquals(100 + index, asked.returnSize(index));
        reply.addReturn(pattern(100 + index, index), index);
      }
      server.reply(asked, reply);
    }
    try (Message answer = receive(client)) {
      for (int item = 0; item < 16; ++item)
        assertEquals(pattern(115 - item, 15 - item), answer.item(item));
    }
    for (int index = 0; index < 16; ++index)
      assertEquals(pattern(100 + index, index), buffers[index].buffer());
  }

  @Test
  void theRightToWriteEndsWithTheFirstReply() throws Exception {
    ReturnBuffer buffer = new ReturnBuffer(ByteBuffer.allocateDirect(100_000));
    client.send(server.id(), new Outgoing().attach(buffer));
    client.post(new ReceiveWindow(ByteBuffer.allocateDirect(100_000)));
    try (Message asked = receive(server)) {
      server.reply(asked, new Outgoing().addReturn(pattern(100_000, 1), 0));
      server.reply(asked, new Outgoing().addReturn(pattern(100_000, 2), 0));
    }
    try (Message first = receive(client)) {
      assertEquals(ViewKind.RETURNED, first.kind(0));
    }
    try (Message second = receive(client)) {
      assertEquals(ViewKind.WINDOW, second.kind(0));
      assertEquals(pattern(100_000, 2), second.item(0));
    }
    assertEquals(pattern(100_000, 1), buffer.buffer());
  }
}
