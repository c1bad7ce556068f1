// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Short messages. */
class ShortSendTest extends PairTest {
  @Test
  @Tag("verbs")
  void aMessageArrivesWithItsSourceTagAndItems() throws Exception {
    Outgoing message =
        new Outgoing()
            .tag(-7)
            .add(bytes("one"))
            .add(bytes(""))
            .add(pattern(300, 1), ItemKind.SHORT);
    Ticket ticket = client.send(server.id(), message);
    assertTrue(
        ticket.isDone() && !ticket.isCompletedExceptionally(),
        "short items are sent when the call returns");
    try (Message received = receive(server)) {
      assertEquals(client.id(), received.source());
      assertEquals(-7, received.tag());
      assertEquals(3, received.itemCount());
      assertEquals("one", text(received.item(0)));
      assertEquals(0, received.item(1).remaining());
      assertEquals(pattern(300, 1), received.item(2));
      assertEquals(ViewKind.SHORT, received.kind(2));
      assertEquals(Status.OK, received.status(2));
      assertEquals(300, received.size(2));
      assertTrue(received.item(2).isReadOnly());
      assertEquals(0, received.inReplyTo());
      assertEquals(0, received.returnCount());
      ByteBuffer part = ByteBuffer.allocate(10);
      assertEquals(10, received.copyTo(2, 290, part));
      assertEquals(pattern(300, 1).position(290), part.flip());
    }
  }

  @Test
  void anEmptyMessageArrives() throws Exception {
    client.send(server.id(), new Outgoing());
    try (Message received = receive(server)) {
      assertEquals(0, received.itemCount());
    }
  }

  @Test
  void theSixtyFourItemsOfAMessageArriveInTheirOrder() throws Exception {
    Outgoing message = new Outgoing();
    for (int index = 0; index < 64; ++index) message.add(bytes("item " + index));
    assertThrows(IllegalStateException.class, () -> message.add(bytes("one too many")));
    client.send(server.id(), message);
    try (Message received = receive(server)) {
      for (int index = 0; index < 64; ++index)
        assertEquals("item " + index, text(received.item(index)));
    }
  }

  @Test
  void heapDirectSlicedAndReadOnlyBuffersAreSentFromPositionToLimit() throws Exception {
    ByteBuffer all = pattern(100, 2);
    ByteBuffer expected = all.slice(10, 20);
    byte[] heap = new byte[100];
    all.get(0, heap);
    for (ByteBuffer source :
        new ByteBuffer[] {
          all.duplicate().position(10).limit(30),
          all.slice(10, 20),
          all.asReadOnlyBuffer().position(10).limit(30),
          ByteBuffer.wrap(heap, 10, 20),
          ByteBuffer.wrap(heap, 10, 20).slice().asReadOnlyBuffer()
        }) {
      int position = source.position();
      client.send(server.id(), source);
      assertEquals(position, source.position(), "the buffer stays as it is");
      try (Message received = receive(server)) {
        assertEquals(expected, received.item(0));
      }
    }
  }

  @Test
  @Tag("verbs")
  void messagesArriveInTheOrderOfTheirSends() throws Exception {
    Outgoing message = new Outgoing();
    for (int index = 0; index < 1000; ++index) {
      client.send(server.id(), message.clear().tag(index), LIMIT, TimeUnit.SECONDS);
      if (index % 100 != 99) continue;
      for (int tag = index - 99; tag <= index; ++tag) {
        try (Message received = receive(server)) {
          assertEquals(tag, received.tag());
        }
      }
    }
  }

  @Test
  @Tag("verbs")
  void theShortLimitIsWhatFitsAndOneMoreByteIsTooLarge() throws Exception {
    int limit = (int) client.shortLimit(server.id(), 1);
    assertTrue(limit >= 1000);
    client.send(server.id(), new Outgoing().add(pattern(limit, 3), ItemKind.SHORT));
    try (Message received = receive(server)) {
      assertEquals(pattern(limit, 3), received.item(0));
    }
    Outgoing larger = new Outgoing().add(pattern(limit + 1, 3), ItemKind.SHORT);
    assertThrows(RipcException.TooLarge.class, () -> client.send(server.id(), larger));
  }

  @Test
  void largeShortItemsArriveWholeWhateverTheReceiversMemory() throws Exception {
    Service roomy = serverContext.service().queueBytes(1 << 20).register();
    int limit = (int) client.shortLimit(roomy.id(), 1);
    int[] sizes = {limit / 8, 100, limit / 4, limit / 8};
    for (int size : sizes)
      client.send(roomy.id(), new Outgoing().add(pattern(size, size), ItemKind.SHORT));
    for (int size : sizes) {
      try (Message received = receive(roomy)) {
        assertEquals(pattern(size, size), received.item(0));
      }
    }
    client.send(
        roomy.id(), new Outgoing().add(pattern(limit, 9), ItemKind.SHORT), LIMIT, TimeUnit.SECONDS);
    try (Message received = receive(roomy)) {
      assertEquals(pattern(limit, 9), received.item(0));
    }
  }

  @Test
  @Tag("verbs")
  void sendManySendsAllInTheirOrder() throws Exception {
    Outgoing[] messages = new Outgoing[100];
    for (int index = 0; index < messages.length; ++index) {
      messages[index] = new Outgoing().tag(index).add(bytes("number " + index));
    }
    assertEquals(100, client.sendMany(server.id(), messages, 100));
    for (int index = 0; index < messages.length; ++index) {
      try (Message received = receive(server)) {
        assertEquals(index, received.tag());
        assertEquals("number " + index, text(received.item(0)));
      }
    }
    Outgoing[] large = {new Outgoing().add(pattern(5000, 1))};
    assertThrows(IllegalArgumentException.class, () -> client.sendMany(server.id(), large, 1));
  }

  @Test
  void sendManyRefusesAMessageThatItCannotSendBeforeItSendsAny() throws Exception {
    Outgoing[] messages = new Outgoing[70];
    for (int index = 0; index < messages.length; ++index) messages[index] = new Outgoing();
    messages[69].add(pattern(5000, 1));
    assertThrows(IllegalArgumentException.class, () -> client.sendMany(server.id(), messages, 70));
    client.send(server.id(), bytes("the first"));
    assertEquals("the first", receiveText(server));
  }

  @Test
  void sendManyStopsWhereThereIsNoRoom() throws Exception {
    Service small = serverContext.service().queueMessages(16).register();
    Outgoing[] messages = new Outgoing[1000];
    for (int index = 0; index < messages.length; ++index)
      messages[index] = new Outgoing().tag(index);
    int sent = client.sendMany(small.id(), messages, messages.length);
    assertTrue(sent >= 16 && sent < 1000, "sent " + sent);
    for (int index = 0; index < sent; ++index) {
      try (Message received = receive(small)) {
        assertEquals(index, received.tag());
      }
    }
    assertNull(small.poll());
  }

  @Test
  void sendManyCountsWhatItSentIfTheServiceIsClosedMeanwhile() throws Exception {
    Outgoing[] messages = new Outgoing[16_000];
    Arrays.fill(messages, new Outgoing());
    for (int round = 0; round < 5; ++round) {
      Service closing = clientContext.register();
      Service roomy = serverContext.service().queueMessages(16_384).register();
      CompletableFuture<Integer> sent =
          CompletableFuture.supplyAsync(
              () -> closing.sendMany(roomy.id(), messages, messages.length));
      receive(roomy).close();
      closing.close();
      assertTrue(sent.get() >= 1);
      roomy.close();
    }
  }

  @Test
  void anUnknownServiceIsNoService() {
    try (Ripc impatient = context(options -> options.resolveTimeout(20, TimeUnit.MILLISECONDS))) {
      Service sender = impatient.register();
      RipcException failure =
          assertThrows(
              RipcException.NoService.class,
              () -> sender.send(ServiceId.of(12345), bytes("hello")));
      assertEquals(Status.NO_SERVICE, failure.status());
      assertTrue(failure.getMessage().length() > 40, "a sentence: " + failure.getMessage());
    }
  }

  @Test
  void manyThreadsSendFromOneServiceAtOnce() throws Exception {
    int each = 2000;
    Thread[] senders = new Thread[3];
    for (int number = 0; number < senders.length; ++number) {
      int mine = number;
      senders[number] =
          thread(
              () -> {
                Outgoing message = new Outgoing();
                for (int index = 0; index < each; ++index) {
                  message.clear().tag(mine * each + index).add(bytes("from " + mine));
                  client.send(server.id(), message, LIMIT, TimeUnit.SECONDS);
                }
              });
    }
    int[] next = {0, each, 2 * each};
    for (int count = 0; count < 3 * each; ++count) {
      try (Message received = receive(server)) {
        int sender = received.tag() / each;
        assertEquals(next[sender]++, received.tag());
        assertEquals("from " + sender, text(received.item(0)));
      }
    }
    for (Thread sender : senders) sender.join();
    assertArrayEquals(new int[] {each, 2 * each, 3 * each}, next);
  }

  @Test
  void serviceIdsAreValues() {
    assertEquals(ServiceId.of(77), ServiceId.of(77));
    assertNotEquals(ServiceId.ofName("a"), ServiceId.ofName("b"));
    assertEquals(ServiceId.ofName("a").hashCode(), ServiceId.ofName("a").hashCode());
    assertTrue(ServiceId.ofGroup("a").isGroup() && ServiceId.ofGroup(3).isGroup());
    assertFalse(ServiceId.ofName("a").isGroup());
    assertThrows(IllegalArgumentException.class, () -> ServiceId.of(0));
    assertThrows(IllegalArgumentException.class, () -> ServiceId.ofName("a\0b"));
    assertThrows(RipcException.class, () -> ServiceId.ofName("a/b"));
    assertThrows(IllegalArgumentException.class, () -> ServiceId.ofGroup(-1));
  }
}
