// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * Programs may do what comes naturally. When a send returns, its memory is the caller's again,
 * unless it was borrowed. The tests reuse the memory before anybody has received the message.
 */
class NaturalTest extends PairTest {
  private static final int SIZE = 1_200_000;

  @BeforeEach
  void lend() {
    server.lending(true);
    client.lending(true);
  }

  private static void overwrite(ByteBuffer used) {
    ByteBuffer all = used.duplicate().clear();
    while (all.hasRemaining()) all.put((byte) 'x');
  }

  private static ByteBuffer heapPattern(int seed) {
    byte[] content = new byte[SIZE];
    pattern(SIZE, seed).get(content);
    return ByteBuffer.wrap(content);
  }

  private void assertArrives(Service at, ByteBuffer... items) throws InterruptedException {
    try (Message message = receive(at)) {
      assertEquals(items.length, message.itemCount());
      for (int index = 0; index < items.length; ++index)
        assertEquals(items[index], message.item(index));
    }
  }

  @Test
  void aHeapBufferIsUsedAgainAtOnce() throws Exception {
    ByteBuffer body = heapPattern(1);
    client.send(server.id(), body);
    overwrite(body);
    assertArrives(server, pattern(SIZE, 1));
  }

  @Test
  void aDirectBufferIsUsedAgainAtOnce() throws Exception {
    ByteBuffer body = ByteBuffer.allocateDirect(SIZE);
    for (int round = 0; round < 5; ++round) {
      body.clear().put(pattern(SIZE, round)).flip();
      client.send(server.id(), body);
    }
    overwrite(body);
    for (int round = 0; round < 5; ++round) assertArrives(server, pattern(SIZE, round));
  }

  @Test
  void slicesOfOneBufferAreItemsAndItIsUsedAgainAtOnce() throws Exception {
    ByteBuffer all = pattern(2 * SIZE, 1);
    Outgoing message = new Outgoing();
    message.add(all.slice(0, 100)).add(all.slice(100, SIZE)).add(all.position(SIZE + 100));
    client.send(server.id(), message);
    overwrite(all);
    ByteBuffer expected = pattern(2 * SIZE, 1);
    assertArrives(
        server,
        expected.slice(0, 100),
        expected.slice(100, SIZE),
        expected.slice(SIZE + 100, SIZE - 100));
  }

  @Test
  void temporariesAreSentAndTheirTicketsDropped() throws Exception {
    String text = "temporary ".repeat(20_000);
    for (int count = 0; count < 5; ++count) {
      client.send(server.id(), bytes(text));
      client.send(server.id(), ByteBuffer.allocateDirect(text.length()).put(bytes(text)).flip());
    }
    System.gc();
    for (int count = 0; count < 10; ++count) assertArrives(server, bytes(text));
  }

  @Test
  void aHeaderIsUsedAgainAtOnceAndTravelsInTheMessageHoweverLargeTheBodyIs() throws Exception {
    ByteBuffer header = ByteBuffer.allocateDirect(16);
    ByteBuffer body = ByteBuffer.allocateDirect(SIZE);
    for (int round = 0; round < 10; ++round) {
      header.putLong(0, round).putLong(8, SIZE);
      body.clear().put(pattern(SIZE, round)).flip();
      client.send(server.id(), new Outgoing().add(header).add(body));
    }
    overwrite(header);
    overwrite(body);
    for (int round = 0; round < 10; ++round) {
      try (Message message = receive(server)) {
        assertEquals(ViewKind.SHORT, message.kind(0));
        assertEquals(round, message.item(0).getLong(0));
        assertEquals(pattern(SIZE, round), message.item(1));
      }
    }
  }

  @Test
  void aLeasedBufferIsReleasedAndLeasedAgainAtOnce() throws Exception {
    for (int round = 0; round < 5; ++round) {
      try (RegisteredBuffer lease = clientContext.lease(SIZE)) {
        lease.buffer().put(pattern(SIZE, round));
        client.send(server.id(), new Outgoing().add(lease, ItemKind.AUTO));
        overwrite(lease.buffer());
      }
    }
    for (int round = 0; round < 5; ++round) assertArrives(server, pattern(SIZE, round));
  }

  @Test
  void registeredMemoryIsTakenBackAtOnce() throws Exception {
    ByteBuffer memory = pattern(SIZE, 1);
    RegisteredBuffer registered = clientContext.registerMemory(memory);
    client.send(server.id(), new Outgoing().add(registered, ItemKind.AUTO));
    registered.close();
    assertFalse(registered.isInUse());
    overwrite(memory);
    assertArrives(server, pattern(SIZE, 1));
  }

  @Test
  void aMappedFileIsWrittenAndCutAtOnce() throws Exception {
    Path file = Files.write(directory.resolve("sent"), new byte[SIZE]);
    try (FileChannel channel =
        FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      ByteBuffer mapped =
          channel.map(MapMode.READ_WRITE, 0, SIZE).put(0, pattern(SIZE, 1), 0, SIZE);
      client.send(server.id(), mapped);
      overwrite(mapped);
      channel.truncate(0);
    }
    assertArrives(server, pattern(SIZE, 1));
  }

  @Test
  void aReplyLiesInTheRequestWhichIsClosedAtOnce() throws Exception {
    for (int round = 0; round < 5; ++round) client.send(server.id(), pattern(SIZE, round));
    for (int round = 0; round < 5; ++round) {
      try (Message request = receive(server)) {
        server.reply(request, request.borrow(0));
      }
    }
    for (int round = 0; round < 5; ++round) assertArrives(client, pattern(SIZE, round));
  }

  @Test
  void aReplyLiesInTheRequestsWindowWhichIsPostedAgainAtOnce() throws Exception {
    server.lending(false);
    ReceiveWindow window = new ReceiveWindow(ByteBuffer.allocateDirect(SIZE));
    for (int round = 0; round < 5; ++round) {
      server.post(window);
      client.send(server.id(), pattern(SIZE, round));
      try (Message request = receive(server)) {
        server.reply(request, request.item(0));
      }
      overwrite(window.buffer());
    }
    for (int round = 0; round < 5; ++round) assertArrives(client, pattern(SIZE, round));
  }

  @Test
  void anAnswerForAReturnBufferIsUsedAgainAtOnceAlsoIfItDoesNotFit() throws Exception {
    for (int room : new int[] {SIZE, 10}) {
      ByteBuffer returned = ByteBuffer.allocateDirect(room);
      client.send(server.id(), new Outgoing().attach(new ReturnBuffer(returned)));
      ByteBuffer answer = pattern(SIZE, room);
      try (Message request = receive(server)) {
        server.reply(request, new Outgoing().addReturn(answer, 0));
      }
      overwrite(answer);
      assertArrives(client, pattern(SIZE, room));
    }
  }

  @Test
  void oneMessageIsFilledAgainAndAgain() throws Exception {
    Outgoing message = new Outgoing();
    for (int round = 0; round < 5; ++round) {
      message.clear().add(heapPattern(round)).add(pattern(100, round));
      client.send(server.id(), message);
    }
    message.clear();
    for (int round = 0; round < 5; ++round)
      assertArrives(server, pattern(SIZE, round), pattern(100, round));
  }

  @Test
  void borrowedMemoryIsTheCallersOnceItsTicketIsComplete() throws Exception {
    ByteBuffer body = ByteBuffer.allocateDirect(SIZE);
    for (int round = 0; round < 5; ++round) {
      body.clear().put(pattern(SIZE, round)).flip();
      Ticket ticket = client.send(server.id(), new Outgoing().borrow(body));
      assertFalse(ticket.isDone());
      assertArrives(server, pattern(SIZE, round));
      ticket.get(LIMIT, TimeUnit.SECONDS);
    }
    overwrite(body);
  }

  @Test
  void theHeapCannotBeBorrowedAndIsCopied() throws Exception {
    ByteBuffer body = heapPattern(1);
    assertThrows(IllegalArgumentException.class, () -> new Outgoing().borrow(body));
    Ticket ticket = client.send(server.id(), new Outgoing().add(body, ItemKind.LONG));
    Arrays.fill(body.array(), (byte) 'x');
    assertArrives(server, pattern(SIZE, 1));
    ticket.get(LIMIT, TimeUnit.SECONDS);
    assertTrue(ticket.isDone());
  }
}
