// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.libripc.internal.Layout;
import org.libripc.internal.NativeBlock;

/** Long messages: windows, tickets, lending, and whose memory it is. */
class LongSendTest extends PairTest {
  private ReceiveWindow post(int size) {
    ReceiveWindow window = new ReceiveWindow(ByteBuffer.allocateDirect(size));
    server.post(window);
    return window;
  }

  private RegisteredBuffer leased(int size, long seed) {
    RegisteredBuffer buffer = clientContext.lease(size);
    buffer.buffer().put(pattern(size, seed));
    return buffer;
  }

  @Test
  @Tag("verbs")
  void longItemsLandInWindowsInPostingOrder() throws Exception {
    ReceiveWindow first = post(100_000);
    ReceiveWindow second = post(200_000);
    assertTrue(first.isPosted());
    try (RegisteredBuffer one = leased(100_000, 1)) {
      Outgoing message = new Outgoing().tag(9).add(bytes("head")).add(one, ItemKind.LONG);
      message.add(pattern(150_000, 2), ItemKind.LONG);
      Ticket ticket = client.send(server.id(), message);
      try (Message received = receive(server)) {
        assertEquals("head", text(received.item(0)));
        assertEquals(ViewKind.WINDOW, received.kind(1));
        assertSame(first, received.window(1));
        assertSame(second, received.window(2));
        assertNull(received.window(0));
        assertFalse(first.isPosted());
        assertEquals(pattern(100_000, 1), received.item(1));
        assertEquals(pattern(150_000, 2), received.item(2));
        assertEquals(pattern(100_000, 1), first.buffer());
      }
      assertEquals(Status.OK, finalStatus(ticket));
    }
    server.post(first);
    assertTrue(first.isPosted(), "a window may be posted again");
  }

  /** The library's own tests check which message overtakes which. */
  @Test
  void unorderedMessagesArriveButNotAtGroups() throws Exception {
    post(100_000);
    Outgoing message = new Outgoing().unordered().tag(1).add(pattern(100_000, 1), ItemKind.LONG);
    Ticket ticket = client.send(server.id(), message);
    try (Message received = receive(server)) {
      assertEquals(pattern(100_000, 1), received.item(0));
    }
    assertEquals(Status.OK, finalStatus(ticket));
    message.clear().unordered().add(bytes("short"));
    assertTrue(client.send(server.id(), message).isDone());
    try (Message received = receive(server)) {
      assertEquals("short", text(received.item(0)));
    }
    assertThrows(
        IllegalArgumentException.class,
        () -> client.sendMany(server.id(), new Outgoing[] {message}, 1));
    ServiceId group = ServiceId.ofGroup("unordered " + System.nanoTime());
    server.join(group);
    RipcException refused = assertThrows(RipcException.class, () -> client.send(group, message));
    assertEquals(Status.UNSUPPORTED, refused.status());
  }

  @Test
  void autoIsLongWhenItDoesNotFit() throws Exception {
    post(2 << 20);
    byte[] heap = new byte[2 << 20];
    pattern(2 << 20, 3).get(heap);
    Ticket ticket = client.send(server.id(), ByteBuffer.wrap(heap));
    heap[5] ^= 1; // the send has copied the item
    try (Message received = receive(server)) {
      assertEquals(ViewKind.WINDOW, received.kind(0));
      assertEquals(pattern(2 << 20, 3), received.item(0));
    }
    assertEquals(Status.OK, finalStatus(ticket));
  }

  @Test
  void smallItemsThatAreLongTogetherArriveTooAndAreTheCallersAtOnce() throws Exception {
    Service narrow = serverContext.service().queueBytes(4096).register();
    int limit = (int) client.shortLimit(narrow.id(), 4);
    int size = Math.min(1000, limit / 4 + 100);
    for (int index = 0; index < 4; ++index)
      serverContext.post(new ReceiveWindow(ByteBuffer.allocateDirect(size)));
    for (int index = 0; index < 4; ++index)
      narrow.post(new ReceiveWindow(ByteBuffer.allocateDirect(size)));
    Outgoing message = new Outgoing();
    for (int index = 0; index < 4; ++index) message.add(pattern(size, index));
    Ticket ticket = client.send(narrow.id(), message);
    // The same message goes as a short one to a service that it fits. It must not reuse what the
    // first send made.
    Service roomy = serverContext.service().queueBytes(1 << 20).register();
    client.send(roomy.id(), message);
    message.clear().add(pattern(size, 99));
    try (Message received = receive(roomy)) {
      for (int index = 0; index < 4; ++index)
        assertEquals(pattern(size, index), received.item(index));
    }
    try (Message received = receive(narrow)) {
      for (int index = 0; index < 4; ++index)
        assertEquals(pattern(size, index), received.item(index));
    }
    assertEquals(Status.OK, finalStatus(ticket));
  }

  @Test
  @Tag("verbs")
  void aLeasedBufferMayBeReleasedBeforeItsTicketCompletes() throws Exception {
    RegisteredBuffer buffer = leased(500_000, 4);
    Ticket ticket = client.send(server.id(), new Outgoing().add(buffer, ItemKind.LONG));
    assertTrue(buffer.release());
    // Another lease of the same size must not get the memory that is still being sent.
    try (RegisteredBuffer other = leased(500_000, 5)) {
      assertEquals(500_000, other.size());
      post(500_000);
      try (Message received = receive(server)) {
        assertEquals(pattern(500_000, 4), received.item(0));
      }
    }
    assertEquals(Status.OK, finalStatus(ticket));
  }

  @Test
  void aDirectBufferThatNobodyHoldsLivesUntilItsTicketCompletes() throws Exception {
    Ticket ticket =
        client.send(server.id(), new Outgoing().add(pattern(300_000, 6), ItemKind.LONG));
    for (int count = 0; count < 3; ++count) System.gc();
    post(300_000);
    try (Message received = receive(server)) {
      assertEquals(pattern(300_000, 6), received.item(0));
    }
    assertEquals(Status.OK, finalStatus(ticket));
  }

  @Test
  void anItemIsWhatWasBetweenPositionAndLimitWhenItWasAdded() throws Exception {
    byte[] heap = new byte[100_000];
    pattern(100_000, 16).get(heap);
    for (ItemKind kind : new ItemKind[] {ItemKind.LONG, ItemKind.SHORT, ItemKind.AUTO}) {
      int size = kind == ItemKind.SHORT ? 3000 : 90_000;
      for (ByteBuffer source : new ByteBuffer[] {pattern(100_000, 16), ByteBuffer.wrap(heap)}) {
        Outgoing message = new Outgoing();
        for (int round = 0; round < 2; ++round) {
          if (kind != ItemKind.SHORT) post(size);
          source.clear().position(10).limit(10 + size);
          message.clear().add(source, kind);
          if (round == 0) source.position(source.limit()); // as a reader does
          if (round == 1) source.limit(20);
          Ticket ticket = client.send(server.id(), message, LIMIT, TimeUnit.SECONDS);
          try (Message received = receive(server)) {
            assertEquals(pattern(100_000, 16).slice(10, size), received.item(0));
          }
          assertEquals(Status.OK, finalStatus(ticket));
        }
      }
    }
  }

  @Test
  void copiedItemsMayChangeAfterTheAddAndOthersAfterTheSend() throws Exception {
    byte[] small = new byte[Outgoing.INLINE_ITEM];
    byte[] inline = new byte[2000];
    byte[] large = new byte[50_000];
    post(100_000);
    post(100_000);
    Outgoing message = new Outgoing();
    message.add(ByteBuffer.wrap(small), ItemKind.SHORT);
    message.add(ByteBuffer.wrap(inline), ItemKind.SHORT);
    small[0] = inline[0] = 1;
    message.add(ByteBuffer.wrap(large), ItemKind.LONG);
    message.add(ByteBuffer.wrap(small), ItemKind.LONG);
    Ticket ticket = client.send(server.id(), message);
    small[1] = large[1] = 1;
    try (Message received = receive(server)) {
      assertEquals(ByteBuffer.wrap(new byte[small.length]), received.item(0));
      assertEquals(ByteBuffer.wrap(new byte[inline.length]), received.item(1));
      assertEquals(ByteBuffer.wrap(new byte[large.length]), received.item(2));
      assertEquals(0, received.item(3).get(1));
    }
    assertEquals(Status.OK, finalStatus(ticket));
  }

  @Test
  @Tag("verbs")
  void withoutAWindowTheItemFailsOnBothSides() throws Exception {
    Ticket ticket = client.send(server.id(), new Outgoing().add(pattern(50_000, 7), ItemKind.LONG));
    try (Message received = receive(server)) {
      assertEquals(ViewKind.FAILED, received.kind(0));
      assertEquals(Status.NO_WINDOW, received.status(0));
      assertEquals(50_000, received.size(0));
      assertThrows(IllegalStateException.class, () -> received.item(0));
    }
    assertEquals(Status.NO_WINDOW, finalStatus(ticket));
  }

  @Test
  void aWindowThatIsTooSmallStaysPosted() throws Exception {
    ReceiveWindow small = post(100);
    Ticket ticket = client.send(server.id(), new Outgoing().add(pattern(50_000, 8), ItemKind.LONG));
    try (Message received = receive(server)) {
      assertEquals(Status.WINDOW_TOO_SMALL, received.status(0));
    }
    assertEquals(Status.WINDOW_TOO_SMALL, finalStatus(ticket));
    assertTrue(small.isPosted());
    assertTrue(server.withdraw(small));
    assertFalse(small.isPosted());
    assertFalse(server.withdraw(small), "once");
  }

  @Test
  void windowsOfTheContextServeEveryService() throws Exception {
    ReceiveWindow window = new ReceiveWindow(serverContext.lease(60_000));
    serverContext.post(window);
    assertFalse(server.withdraw(window), "it was not posted there");
    client.send(server.id(), new Outgoing().add(pattern(60_000, 9), ItemKind.LONG));
    try (Message received = receive(server)) {
      assertSame(window, received.window(0));
      assertEquals(pattern(60_000, 9), received.item(0));
    }
    serverContext.post(window);
    assertTrue(serverContext.withdraw(window));
  }

  @Test
  @Tag("verbs")
  void aTicketThatIsCancelledIsNeverDelivered() throws Exception {
    Ticket ticket =
        client.send(server.id(), new Outgoing().add(pattern(50_000, 10), ItemKind.LONG));
    assertTrue(ticket.cancel(false));
    assertTrue(ticket.isCancelled());
    assertThrows(CancellationException.class, () -> ticket.get(LIMIT, TimeUnit.SECONDS));
    assertFalse(Ticket.DONE.cancel(false));
    client.send(server.id(), bytes("next"));
    assertEquals("next", receiveText(server));
  }

  @Test
  @Tag("verbs")
  void aTicketRunsOutOfItsTime() throws Exception {
    Outgoing message =
        new Outgoing().add(pattern(50_000, 11), ItemKind.LONG).timeout(20, TimeUnit.MILLISECONDS);
    assertEquals(Status.TIMEOUT, finalStatus(client.send(server.id(), message)));
  }

  @Test
  void memoryOfATicketThatRanOutOfItsTimeIsLeasedAgainAndNeverDelivered() throws Exception {
    Ticket ticket;
    try (RegisteredBuffer buffer = leased(500_000, 18)) {
      ticket =
          client.send(
              server.id(),
              new Outgoing().add(buffer, ItemKind.LONG).timeout(20, TimeUnit.MILLISECONDS));
    }
    assertEquals(Status.TIMEOUT, finalStatus(ticket));
    post(500_000);
    try (RegisteredBuffer other = leased(500_000, 19)) {
      Ticket next = client.send(server.id(), new Outgoing().tag(2).add(other, ItemKind.LONG));
      for (int tag = 0; tag != 2; ) {
        try (Message received = receive(server)) {
          tag = received.tag();
          if (tag == 2) assertEquals(pattern(500_000, 19), received.item(0));
          if (tag != 2) assertEquals(ViewKind.FAILED, received.kind(0));
        }
      }
      assertEquals(Status.OK, finalStatus(next));
    }
  }

  @Test
  @Tag("verbs")
  void dependentStagesRunWhenTheTicketCompletes() throws Exception {
    post(50_000);
    Ticket ticket =
        client.send(server.id(), new Outgoing().add(pattern(50_000, 12), ItemKind.LONG));
    CompletableFuture<String> after = ticket.thenApply(done -> "taken");
    assertFalse(ticket.complete(null), "only the library completes it");
    assertFalse(ticket.completeExceptionally(new IllegalStateException()));
    ticket.completeAsync(() -> null, Runnable::run);
    assertFalse(after.isDone());
    receive(server).close();
    assertEquals("taken", after.get(LIMIT, TimeUnit.SECONDS));
  }

  @Test
  void pollingCompletesATicketWithoutTheResponder() throws Exception {
    server.lending(true);
    CountDownLatch busy = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    try (RegisteredBuffer lease = leased(200_000, 4)) {
      // From now on the responder of the sender is held up.
      Ticket holding = client.send(server.id(), new Outgoing().add(lease, ItemKind.LONG));
      CompletableFuture<Void> held =
          holding.thenRun(
              () -> {
                busy.countDown();
                await(goOn);
              });
      receive(server).close();
      await(busy);
      Ticket ticket = client.send(server.id(), new Outgoing().add(lease, ItemKind.LONG));
      if (isShm()) {
        assertFalse(ticket.poll(), "nobody has taken it");
        receive(server).close();
        assertTrue(ticket.poll());
      }
      goOn.countDown();
      held.get(LIMIT, TimeUnit.SECONDS);
      if (!isShm()) receive(server).close();
      assertEquals(Status.OK, finalStatus(ticket));
      assertTrue(ticket.poll(), "it stays complete");
    }
  }

  private static void await(CountDownLatch latch) {
    try {
      assertTrue(latch.await(LIMIT, TimeUnit.SECONDS));
    } catch (InterruptedException interrupted) {
      throw new IllegalStateException(interrupted);
    }
  }

  @Test
  void closingTheServiceCompletesItsTickets() throws Exception {
    Ticket ticket =
        client.send(server.id(), new Outgoing().add(pattern(50_000, 13), ItemKind.LONG));
    client.close();
    assertEquals(Status.CLOSED, finalStatus(ticket));
  }

  @Test
  @Tag("verbs")
  void lentItemsAreReadInPlaceOrCopiedOnce() throws Exception {
    server.lending(true);
    try (RegisteredBuffer buffer = leased(300_000, 14)) {
      Ticket ticket = client.send(server.id(), new Outgoing().add(buffer, ItemKind.LONG));
      Message received = receive(server);
      if (isShm()) {
        assertEquals(ViewKind.LENT, received.kind(0));
        assertEquals(0, received.copies(0));
        assertFalse(ticket.isDone(), "it is lent");
      }
      assertEquals(pattern(300_000, 14), received.borrow(0));
      assertTrue(received.borrow(0).isReadOnly());
      assertEquals(pattern(300_000, 14), received.item(0));
      for (ByteBuffer part :
          new ByteBuffer[] {
            ByteBuffer.allocate(1000), ByteBuffer.allocateDirect(1000).position(1)
          }) {
        int room = part.remaining();
        int start = part.position();
        assertEquals(room, received.copyTo(0, 500, part));
        assertEquals(pattern(300_000, 14).slice(500, room), part.flip().position(start));
      }
      ByteBuffer end = ByteBuffer.allocate(100);
      assertEquals(10, received.copyTo(0, 299_990, end));
      assertThrows(IndexOutOfBoundsException.class, () -> received.copyTo(0, 300_001, end));
      received.close();
      assertEquals(Status.OK, finalStatus(ticket));
      assertThrows(IllegalStateException.class, () -> received.borrow(0));
      assertThrows(IllegalStateException.class, () -> received.copyTo(0, 0, end));
    }
  }

  @Test
  void aLentItemIsReadWhereItLiesAlsoIfItsRecordIsWrittenOver() throws Exception {
    server.lending(true);
    try (RegisteredBuffer buffer = leased(300_000, 17);
        MessageBatch batch = server.batch(1, 0)) {
      client.send(server.id(), new Outgoing().add(buffer, ItemKind.LONG));
      assertEquals(1, server.receive(batch, LIMIT, TimeUnit.SECONDS));
      Message received = batch.get(0);
      assertEquals(ViewKind.LENT, received.kind(0));
      // Does what another thread's receive could do to the record while this one is in a call.
      NativeBlock other = new NativeBlock(1000);
      ByteBuffer record = batch.chunk().block.bytes;
      record.putLong(Layout.Record.BYTES + Layout.View.DATA, other.address);
      record.putLong(Layout.Record.BYTES + Layout.View.SIZE, 1L << 40);
      ByteBuffer copy = ByteBuffer.allocateDirect(1000);
      assertEquals(1000, received.copyTo(0, 0, copy));
      assertEquals(pattern(300_000, 17).slice(0, 1000), copy.flip());
      assertEquals(pattern(300_000, 17), received.borrow(0));
      assertThrows(IndexOutOfBoundsException.class, () -> received.copyTo(0, 300_001, copy));
      NativeBlock.keep(other);
    }
  }

  @Test
  void aMessageOf64MegabytesArrivesWhole() throws Exception {
    int size = 64 << 20;
    ReceiveWindow window = new ReceiveWindow(serverContext.lease(size));
    server.post(window);
    try (RegisteredBuffer buffer = leased(size, 15)) {
      Ticket ticket = client.send(server.id(), new Outgoing().add(buffer, ItemKind.LONG));
      try (Message received = receive(server)) {
        assertEquals(buffer.buffer(), received.item(0));
      }
      assertEquals(Status.OK, finalStatus(ticket));
    }
  }
}
