// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** The pool of registered memory as Java sees it. */
class BufferTest extends PairTest {
  @Test
  void aLeaseHasTheSizeThatWasAskedFor() {
    for (int size :
        new int[] {0, 1, 255, 256, 257, 4096, 100_000, 1 << 20, (1 << 20) + 1, 40 << 20}) {
      try (RegisteredBuffer buffer = clientContext.lease(size)) {
        assertEquals(size, buffer.size());
        assertEquals(size, buffer.buffer().capacity());
        assertTrue(buffer.buffer().isDirect());
        if (size > 0) buffer.buffer().put(0, (byte) 1).put(size - 1, (byte) 2);
      }
    }
    assertThrows(IllegalArgumentException.class, () -> clientContext.lease(-1));
  }

  @Test
  void leasesDoNotOverlap() {
    Random random = new Random(1);
    List<RegisteredBuffer> held = new ArrayList<>();
    for (int round = 0; round < 2000; ++round) {
      if (held.size() > 50 || (!held.isEmpty() && random.nextBoolean())) {
        RegisteredBuffer buffer = held.remove(random.nextInt(held.size()));
        ByteBuffer bytes = buffer.buffer();
        byte mark = bytes.get(0);
        assertEquals(mark, bytes.get(bytes.capacity() - 1));
        assertEquals(mark, bytes.get(bytes.capacity() / 2));
        assertTrue(buffer.release());
      } else {
        RegisteredBuffer buffer = clientContext.lease(1 + random.nextInt(20_000));
        ByteBuffer bytes = buffer.buffer();
        while (bytes.hasRemaining()) bytes.put((byte) round);
        held.add(buffer);
      }
    }
    held.forEach(RegisteredBuffer::release);
  }

  @Test
  void releasedMemoryIsLeasedAgainWithoutANativeCall() {
    clientContext.lease(10_000).release();
    long leases = clientContext.poolStatistics().leases();
    for (int round = 0; round < 1000; ++round) clientContext.lease(10_000).release();
    assertEquals(leases, clientContext.poolStatistics().leases());
  }

  @Test
  void useAfterTheLastReleaseIsDetected() {
    RegisteredBuffer buffer = clientContext.lease(100);
    assertEquals(2, buffer.retain().users());
    assertFalse(buffer.release());
    assertTrue(buffer.release());
    assertEquals(0, buffer.users());
    assertThrows(IllegalStateException.class, buffer::buffer);
    assertThrows(IllegalStateException.class, buffer::retain);
    assertThrows(IllegalStateException.class, buffer::release);
    assertThrows(IllegalStateException.class, () -> new Outgoing().add(buffer, ItemKind.LONG));
    assertThrows(IllegalStateException.class, () -> new ReceiveWindow(buffer));
    buffer.close();
  }

  @Test
  void memoryThatIsGivenBackMeanwhileShowsNoBuffer() {
    try (Ripc ripc = context(options -> options.keepReleased(0))) {
      RegisteredBuffer buffer = ripc.lease(100);
      CountedMemory memory = buffer.memory();
      buffer.release();
      assertThrows(IllegalStateException.class, () -> memory.slice(100));
    }
  }

  @Test
  void closingItTwiceTakesNobodyElsesUse() throws Exception {
    RegisteredBuffer buffer = clientContext.lease(70_000).retain();
    List<Thread> closers = new ArrayList<>();
    for (int number = 0; number < 4; ++number) closers.add(thread(buffer::close));
    for (Thread closer : closers) closer.join();
    buffer.close();
    assertEquals(1, buffer.users(), "the one that has retained it");
    assertTrue(buffer.release());
    buffer.close();
    assertThrows(IllegalStateException.class, buffer::release);
  }

  @Test
  void aSendAfterTheReleaseThrowsAndThePoolStaysWhole() throws Exception {
    Outgoing message = new Outgoing();
    ByteBuffer view;
    try (RegisteredBuffer buffer = clientContext.lease(70_000)) {
      message.add(buffer, ItemKind.LONG);
      view = buffer.buffer();
    }
    assertThrows(IllegalStateException.class, () -> client.send(server.id(), message));
    Outgoing same = new Outgoing().add(view, ItemKind.LONG);
    assertThrows(IllegalStateException.class, () -> client.send(server.id(), same));
    try (RegisteredBuffer one = clientContext.lease(70_000);
        RegisteredBuffer other = clientContext.lease(70_000)) {
      one.buffer().put(0, (byte) 1);
      other.buffer().put(0, (byte) 2);
      assertEquals(1, one.buffer().get(0));
      assertThrows(
          IllegalStateException.class, () -> client.send(server.id(), message), "it is another's");
    }
    assertNull(server.poll(), "nothing was sent");
  }

  @Test
  void aBufferIsLeasedAsFarAsTheLeaseGoesAndAsLongAsItIsUsed() {
    RegisteredBuffer lease = clientContext.lease(4096);
    ByteBuffer bytes = lease.buffer();
    assertTrue(clientContext.isLeased(bytes));
    assertTrue(clientContext.isLeased(bytes.slice(100, 500)));
    assertTrue(clientContext.isLeased(bytes.duplicate().position(4000)));
    assertFalse(serverContext.isLeased(bytes), "from another context");
    assertFalse(clientContext.isLeased(ByteBuffer.allocate(10)));
    assertFalse(clientContext.isLeased(ByteBuffer.allocateDirect(10)));
    ByteBuffer foreign = ByteBuffer.allocateDirect(4096);
    try (RegisteredBuffer registered = clientContext.registerMemory(foreign)) {
      assertFalse(clientContext.isLeased(registered.buffer()), "it is the application's");
    }
    lease.retain().release();
    assertTrue(clientContext.isLeased(bytes));
    lease.release();
    assertFalse(clientContext.isLeased(bytes));
  }

  @Test
  void aWindowKeepsItsMemoryWhileItIsPosted() {
    RegisteredBuffer buffer = clientContext.lease(70_000);
    ReceiveWindow window = new ReceiveWindow(buffer);
    client.post(window);
    buffer.release();
    try (RegisteredBuffer other = clientContext.lease(70_000)) {
      other.buffer().put(0, (byte) 5);
      window.buffer().put(0, (byte) 6);
      assertEquals(5, other.buffer().get(0));
    }
    assertTrue(client.withdraw(window));
    assertThrows(IllegalStateException.class, () -> client.post(window), "its memory is gone");
  }

  @Test
  void thePoolLimitIsNoMemoryAndReleasedMemoryComesBack() {
    try (Ripc small = context(options -> options.poolLimit(8 << 20))) {
      List<RegisteredBuffer> held = new ArrayList<>();
      RipcException full =
          assertThrows(
              RipcException.class,
              () -> {
                for (int count = 0; count < 20; ++count) held.add(small.lease(1 << 20));
              });
      assertEquals(Status.NO_MEMORY, full.status());
      assertTrue(held.size() >= 4, "got " + held.size());
      held.forEach(RegisteredBuffer::release);
      small.lease(3 << 20).release();
    }
  }

  @Test
  void aBufferThatIsNeverReleasedIsReportedAndItsMemoryComesBackWhenNobodySeesIt()
      throws Exception {
    long reported = Ripc.leaksReported();
    long leased = clientContext.poolStatistics().leased();
    ByteBuffer[] seen = {leak(3_000_000)};
    assertTrue(collected(() -> Ripc.leaksReported() > reported));
    seen[0].put(0, (byte) 1);
    assertTrue(clientContext.poolStatistics().leased() > leased, "a buffer over it can be reached");
    seen[0] = null;
    assertTrue(collected(() -> clientContext.poolStatistics().leased() == leased));
  }

  private ByteBuffer leak(int size) {
    return clientContext.lease(size).buffer();
  }

  private static boolean collected(java.util.function.BooleanSupplier condition)
      throws InterruptedException {
    return eventually(
        () -> {
          System.gc();
          return condition.getAsBoolean();
        });
  }

  @Test
  void buffersStayReadableAfterTheContextIsClosed() {
    RegisteredBuffer buffer = clientContext.lease(40 << 20);
    ByteBuffer bytes = buffer.buffer();
    bytes.put(12345, (byte) 7);
    clientContext.close();
    assertEquals(7, bytes.get(12345));
    buffer.release();
    for (int count = 0; count < 3; ++count) System.gc();
    assertEquals(7, bytes.get(12345));
    bytes.put(40 << 10, (byte) 1);
    assertThrows(RipcException.Closed.class, () -> clientContext.lease(1));
    assertThrows(RipcException.Closed.class, () -> clientContext.poolStatistics());
  }
}
