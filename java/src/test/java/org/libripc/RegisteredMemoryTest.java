// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Memory of the application that is registered: direct buffers and mapped files. */
class RegisteredMemoryTest extends PairTest {
  private static final int SIZE = 300_000;

  private long registrations() {
    return clientContext.poolStatistics().registrations();
  }

  private static byte[] bytesOf(ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.duplicate().get(bytes);
    return bytes;
  }

  /** Sends a long item and checks that it arrives. */
  private void sendAndCheck(Outgoing message, ByteBuffer expected) throws Exception {
    server.post(new ReceiveWindow(ByteBuffer.allocateDirect(SIZE)));
    Ticket ticket = client.send(server.id(), message);
    try (Message received = receive(server)) {
      assertEquals(Status.OK, received.status(0));
      assertArrayEquals(bytesOf(expected), bytesOf(received.item(0)));
    }
    ticket.get(LIMIT, TimeUnit.SECONDS);
  }

  @Test
  @Tag("verbs")
  void aDirectBufferIsSentFromAndReceivedInto() throws Exception {
    ByteBuffer direct = pattern(SIZE + 10, 1);
    direct.position(7).limit(SIZE + 3);
    try (RegisteredBuffer memory = clientContext.registerMemory(direct)) {
      assertEquals(1, registrations());
      assertEquals(SIZE - 4, memory.size());
      assertEquals(direct, memory.buffer());
      assertEquals(7, direct.position(), "it is as it was");
      sendAndCheck(new Outgoing().add(memory, ItemKind.LONG), direct);
      sendAndCheck(new Outgoing().add(direct, ItemKind.LONG), direct);

      client.post(new ReceiveWindow(memory));
      ByteBuffer other = pattern(SIZE - 4, 2);
      server.send(client.id(), new Outgoing().add(other, ItemKind.LONG));
      try (Message received = receive(client)) {
        assertEquals(ViewKind.WINDOW, received.kind(0));
        assertEquals(other, memory.buffer());
        assertEquals(other, direct, "its memory is the application's");
      }
    }
    assertEquals(0, registrations());
  }

  private ByteBuffer mapped(FileChannel.MapMode mode) throws IOException {
    Path file = directory.resolve("mapped");
    Files.write(file, bytesOf(pattern(SIZE, 3)));
    try (FileChannel channel =
        FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      return channel.map(mode, 0, SIZE);
    }
  }

  @Test
  void aFileThatIsMappedReadOnlyIsSentFromAndNothingElse() throws Exception {
    try (RegisteredBuffer memory =
        clientContext.registerMemory(mapped(FileChannel.MapMode.READ_ONLY))) {
      assertTrue(memory.buffer().isReadOnly());
      sendAndCheck(new Outgoing().add(memory, ItemKind.LONG), pattern(SIZE, 3));
      assertThrows(IllegalArgumentException.class, () -> new ReceiveWindow(memory));
      assertThrows(IllegalArgumentException.class, () -> new ReturnBuffer(memory));
    }
    assertEquals(0, registrations());
  }

  /** RDMA devices can read such a mapping with any kernel. */
  @Test
  @Tag("verbs")
  void aFileThatIsMappedPrivatelyIsSentFrom() throws Exception {
    try (RegisteredBuffer memory =
        clientContext.registerMemory(mapped(FileChannel.MapMode.PRIVATE))) {
      sendAndCheck(new Outgoing().add(memory, ItemKind.LONG), pattern(SIZE, 3));
    }
    assertEquals(0, registrations());
  }

  @Test
  @Tag("verbs")
  void aReplyIsWrittenIntoIt() throws Exception {
    ByteBuffer direct = ByteBuffer.allocateDirect(SIZE);
    RegisteredBuffer memory = clientContext.registerMemory(direct);
    Outgoing request = new Outgoing().attach(new ReturnBuffer(memory));
    client.send(server.id(), request);
    memory.close();
    assertTrue(memory.isInUse(), "the reply may still be written");
    try (Message received = receive(server)) {
      server.reply(received, new Outgoing().addReturn(pattern(SIZE, 4), 0));
    }
    try (Message answer = receive(client)) {
      assertEquals(ViewKind.RETURNED, answer.kind(0));
    }
    assertEquals(pattern(SIZE, 4), direct);
    assertFalse(memory.isInUse());
    assertEquals(0, registrations());
  }

  @Test
  @Tag("verbs")
  void memoryClosedInFlightArrivesAndIsThenUnregistered() throws Exception {
    ByteBuffer direct = pattern(SIZE, 5);
    List<Outgoing> messages = new ArrayList<>();
    RegisteredBuffer memory = clientContext.registerMemory(direct);
    messages.add(new Outgoing().add(memory, ItemKind.LONG));
    messages.add(new Outgoing().add(direct, ItemKind.LONG));
    messages.add(new Outgoing().add(direct.slice(1000, 100_000), ItemKind.LONG));
    memory.close();
    for (Outgoing message : messages.subList(1, 3)) {
      RegisteredBuffer again = clientContext.registerMemory(direct);
      Ticket ticket = client.send(server.id(), message);
      again.close();
      assertTrue(again.isInUse());
      assertEquals(1, registrations());
      server.post(new ReceiveWindow(ByteBuffer.allocateDirect(SIZE)));
      receive(server).close();
      ticket.get(LIMIT, TimeUnit.SECONDS);
      assertTrue(eventually(() -> !again.isInUse()));
      assertEquals(0, registrations());
    }
    assertThrows(IllegalStateException.class, () -> client.send(server.id(), messages.get(0)));
  }

  @Test
  void oneThatEndsTakesNothingFromOthersOfTheSameMemory() throws Exception {
    ByteBuffer direct = pattern(SIZE, 6);
    RegisteredBuffer whole = clientContext.registerMemory(direct);
    RegisteredBuffer start = clientContext.registerMemory(direct.slice(0, 100_000));
    RegisteredBuffer middle = clientContext.registerMemory(direct.slice(50_000, 100_000));
    Ticket ticket = client.send(server.id(), new Outgoing().add(start, ItemKind.LONG));
    whole.close();
    middle.close();
    start.close();
    server.post(new ReceiveWindow(ByteBuffer.allocateDirect(100_000)));
    try (Message received = receive(server)) {
      assertEquals(Status.OK, received.status(0));
    }
    ticket.get(LIMIT, TimeUnit.SECONDS);
    assertTrue(eventually(() -> registrations() == 0));
    for (RegisteredBuffer each : List.of(whole, start, middle)) assertFalse(each.isInUse());
  }

  @Test
  void theLastOfThoseThatStartAtOneAddressEndsThemAll() {
    ByteBuffer direct = ByteBuffer.allocateDirect(SIZE);
    RegisteredBuffer whole = clientContext.registerMemory(direct);
    RegisteredBuffer again = clientContext.registerMemory(direct);
    RegisteredBuffer start = clientContext.registerMemory(direct.slice(0, 1000));
    whole.close();
    start.close();
    assertEquals(2, registrations(), "the whole and the start");
    assertTrue(whole.isInUse());
    again.close();
    assertEquals(0, registrations());
    assertFalse(whole.isInUse());
  }

  @Test
  void theUsersAreCountedAsThoseOfALease() {
    RegisteredBuffer memory = clientContext.registerMemory(ByteBuffer.allocateDirect(100));
    assertEquals(2, memory.retain().users());
    memory.close();
    memory.close();
    assertEquals(1, memory.users());
    assertTrue(memory.release());
    assertEquals(0, registrations());
    assertThrows(IllegalStateException.class, memory::buffer);
    assertThrows(IllegalStateException.class, memory::retain);
    assertThrows(IllegalStateException.class, memory::release);
    assertThrows(IllegalStateException.class, () -> new ReceiveWindow(memory));
  }

  @Test
  void unsuitableMemoryIsNotRegistered() {
    for (ByteBuffer bad : List.of(ByteBuffer.allocate(10), ByteBuffer.allocateDirect(0)))
      assertThrows(IllegalArgumentException.class, () -> clientContext.registerMemory(bad));
    assertThrows(NullPointerException.class, () -> clientContext.registerMemory(null));
    clientContext.close();
    assertThrows(
        RipcException.Closed.class,
        () -> clientContext.registerMemory(ByteBuffer.allocateDirect(10)));
  }

  @Test
  void theEndOfTheContextEndsThem() throws Exception {
    ByteBuffer direct = pattern(SIZE, 7);
    RegisteredBuffer memory = clientContext.registerMemory(direct);
    Ticket ticket = client.send(server.id(), new Outgoing().add(memory, ItemKind.LONG));
    clientContext.close();
    assertTrue(eventually(ticket::isDone));
    assertEquals(pattern(SIZE, 7), memory.buffer(), "it is the application's");
    memory.close();
    assertFalse(memory.isInUse());
  }

  @Test
  void oneThatIsNeverReleasedIsReportedAndUnregistered() throws Exception {
    long reported = Ripc.leaksReported();
    ByteBuffer direct = ByteBuffer.allocateDirect(1000);
    clientContext.registerMemory(direct);
    assertTrue(
        eventually(
            () -> {
              System.gc();
              return Ripc.leaksReported() > reported && registrations() == 0;
            }));
  }

  /** Many threads register, send from and close the same piece of memory. */
  @Test
  void threadsMayRegisterTheSameMemory() throws Exception {
    server.lending(true);
    ByteBuffer direct = pattern(SIZE, 8);
    List<Throwable> wrong = java.util.Collections.synchronizedList(new ArrayList<>());
    List<Thread> threads = new ArrayList<>();
    for (int number = 0; number < 4; ++number) {
      int size = 100_000 + number % 2;
      threads.add(
          thread(
              () -> {
                try {
                  for (int round = 0; round < 50; ++round) {
                    Ticket ticket;
                    try (RegisteredBuffer memory =
                        clientContext.registerMemory(direct.slice(0, size))) {
                      ticket =
                          client.send(
                              server.id(),
                              new Outgoing().add(memory, ItemKind.LONG),
                              LIMIT,
                              TimeUnit.SECONDS);
                    }
                    ticket.get(LIMIT, TimeUnit.SECONDS);
                  }
                } catch (CancellationException cancelled) {
                  wrong.add(cancelled);
                }
              }));
    }
    for (int count = 0; count < 200; ++count) receive(server).close();
    for (Thread each : threads) each.join();
    assertEquals(List.of(), wrong);
    assertTrue(eventually(() -> registrations() == 0));
  }
}
