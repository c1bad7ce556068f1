// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import javax.management.JMException;
import javax.management.ObjectName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Nothing grows over many cycles: native memory, threads, descriptors. */
class LeakTest extends PairTest {
  private static long entries(String folder) {
    try (Stream<Path> list = Files.list(Path.of(folder))) {
      return list.count();
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
  }

  // Freed memory, such as what the compiler took for a method, does not count.
  private static long residentKilobytes() {
    try {
      ManagementFactory.getPlatformMBeanServer()
          .invoke(
              new ObjectName("com.sun.management:type=DiagnosticCommand"),
              "systemTrimNativeHeap",
              null,
              null);
      for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
        if (line.startsWith("RssAnon:")) return Long.parseLong(line.replaceAll("\\D", ""));
      }
    } catch (IOException | JMException problem) {
      throw new IllegalStateException(problem);
    }
    throw new IllegalStateException("no RssAnon");
  }

  // A service keeps its end of a link, with its descriptors, until its next receive after the death
  // of the sender. Contexts die when the collector finds their buffers, some after the last
  // receive.
  private void settle() {
    System.gc();
    assertNull(server.poll());
  }

  // After a warm-up, and with the garbage collected, the value must return to `before`, plus at
  // most the slack.
  private void staysAt(String what, LongSupplier value, long slack, long before)
      throws InterruptedException {
    long[] last = {0};
    assertTrue(
        eventually(
            () -> {
              settle();
              last[0] = value.getAsLong();
              return last[0] <= before + slack;
            }),
        () -> what + ": " + before + " before, " + last[0] + " after");
  }

  private void cycles(int count, ThrowingRunnable body) throws Throwable {
    // Warms up as often as it measures: the C library does not give back freed memory.
    for (int round = 0; round < count; ++round) body.run();
    for (int round = 0; round < 3; ++round) {
      settle();
      Thread.sleep(20);
    }
    long threads = entries("/proc/self/task");
    long descriptors = entries("/proc/self/fd");
    long resident = residentKilobytes();
    for (int round = 0; round < count; ++round) body.run();
    staysAt("threads", () -> entries("/proc/self/task"), 4, threads);
    staysAt("descriptors", () -> entries("/proc/self/fd"), 4, descriptors);
    staysAt("resident kilobytes", LeakTest::residentKilobytes, 40_000, resident);
  }

  // Each context begins and ends with threads that wait for each other. With ten other threads for
  // each processor, 600 contexts take more than two minutes.
  @Test
  @Timeout(600)
  void contextsLeaveNothing() throws Throwable {
    cycles(
        300,
        () -> {
          try (Ripc ripc = context()) {
            Service service = ripc.register();
            ripc.lease(100_000).release();
            try (RegisteredBuffer window = ripc.lease(5000)) {
              ripc.post(new ReceiveWindow(window));
            }
            ripc.post(new ReceiveWindow(ByteBuffer.allocateDirect(100)));
            service.send(server.id(), bytes("hello"));
            receive(server).close();
          }
        });
  }

  @Test
  void servicesLeaveNothing() throws Throwable {
    cycles(
        2000,
        () -> {
          try (Service service = clientContext.register()) {
            service.send(server.id(), bytes("hello"));
            service.register((source, items) -> {});
            service.post(new ReceiveWindow(ByteBuffer.allocateDirect(100)));
            receive(server).close();
          }
        });
  }

  @Test
  void messagesLeaveNothing() throws Throwable {
    server.lending(true);
    ByteBuffer copy = ByteBuffer.allocateDirect(100_000);
    ByteBuffer returned = ByteBuffer.allocateDirect(100);
    try (RegisteredBuffer buffer = clientContext.lease(100_000);
        RipcSelector selector = RipcSelector.open()) {
      cycles(
          5000,
          () -> {
            RipcSelector.Key key = selector.register(server, null);
            Outgoing message = new Outgoing().add(bytes("head")).add(buffer, ItemKind.LONG);
            message.attach(new ReturnBuffer(returned));
            Ticket ticket = client.send(server.id(), message);
            try (Message received = receive(server)) {
              received.copyTo(1, 0, copy.clear());
              server
                  .reply(received, new Outgoing().addReturn(bytes("back"), 0))
                  .get(LIMIT, TimeUnit.SECONDS);
            }
            ticket.get(LIMIT, TimeUnit.SECONDS);
            receive(client).close();
            key.cancel();
          });
    }
  }

  @Test
  void callsThatFailLeaveNobodyToCall() throws Exception {
    int before = Callbacks.waiting();
    server.lending(true);
    Outgoing message = new Outgoing().add(pattern(10_000, 1)).attach(returnBuffer());
    client.send(server.id(), message);
    try (Message asked = receive(server)) {
      server.close();
      client.close();
      assertTrue(eventually(() -> Callbacks.waiting() <= before));
      Outgoing again = new Outgoing().add(pattern(10_000, 1)).attach(returnBuffer());
      assertThrows(RipcException.Closed.class, () -> client.send(server.id(), again));
      assertThrows(RipcException.Closed.class, () -> server.reply(asked, again));
      assertThrows(RipcException.Closed.class, () -> client.register((source, items) -> {}));
      assertTrue(Callbacks.waiting() <= before);
    }
  }

  @Test
  void handlersThatAreRegisteredWhileTheirServiceIsClosedAreForgotten() throws Exception {
    int before = Callbacks.waiting();
    for (int round = 0; round < 200; ++round) {
      Service service = clientContext.register();
      Thread closer = thread(service::close);
      try {
        for (; ; ) service.register((source, items) -> {});
      } catch (RipcException end) {
        assertTrue(end.status() == Status.CLOSED || end.status() == Status.LIMIT, end.toString());
      }
      closer.join();
      service.close();
    }
    assertTrue(
        eventually(() -> Callbacks.waiting() <= before), () -> Callbacks.waiting() + " are left");
  }

  private static ReturnBuffer returnBuffer() {
    return new ReturnBuffer(ByteBuffer.allocateDirect(100));
  }
}
