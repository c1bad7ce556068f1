// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.eclipse.jetty.io.RetainableByteBuffer;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.thread.QueuedThreadPool;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.Ripc;
import org.libripc.RipcBuilder;

/** Clients that are killed, at any moment, and connections that come and go. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"tcp", "shm", "socket"})
@Timeout(180) // two JVMs are started
class DeathTest extends HttpPairTest {
  @Test
  void clientsThatAreKilledAreForgottenWithWhatTheyHeld() throws Exception {
    int size = 3_000_000;
    byte[] body = pattern(size, 1);
    Handler leasing =
        new Handler.Abstract() {
          @Override
          public boolean handle(Request request, Response response, Callback callback) {
            RetainableByteBuffer.Mutable buffer = server.getByteBufferPool().acquire(size, true);
            buffer.append(ByteBuffer.wrap(body));
            response.write(true, buffer.getByteBuffer(), Callback.from(buffer::release, callback));
            return true;
          }
        };
    start(leasing, changed -> changed.setIdleTimeout(600_000)); // it is not what ends them
    HttpTest test = new HttpTest();
    assertArrayEquals(pattern(size, 1), test.send(request("/large")).getContent());
    List<Process> clients = new ArrayList<>();
    for (int count = 0; count < 2; ++count)
      clients.add(fetcher("/large 1000000 2 " + size + " any\n"));
    for (Process each : clients) assertEquals("ready", each.inputReader().readLine());
    assertTrue(eventually(() -> connector.getConnectedEndPoints().size() >= 3));
    for (Process each : clients) {
      each.destroyForcibly(); // SIGKILL, while it fetches
      assertTrue(each.waitFor(LIMIT, TimeUnit.SECONDS));
    }
    assertTrue(
        eventually(() -> connector.getConnectedEndPoints().size() == 1),
        () -> "left: " + connector.getConnectedEndPoints());
    assertArrayEquals(pattern(size, 1), test.send(request("/large")).getContent());
    if (!isTcp()) {
      assertTrue(
          eventually(() -> leasedAfterCollection() < size), // each answer had memory of its own
          () -> serverContext.poolStatistics().toString());
    }
  }

  @Override
  RipcBuilder options() {
    return Ripc.builder().keepReleased(0);
  }

  private static long entries(String folder) {
    return Path.of(folder).toFile().list().length;
  }

  // How large the pools are depends on how busy the machine is; they have limits of their own.
  private long threadsOutsideOfPools() {
    long pooled = ((QueuedThreadPool) server.getThreadPool()).getThreads();
    if (!isTcp()) pooled += ripcClient.getBean(QueuedThreadPool.class).getThreads();
    return entries("/proc/self/task") - pooled;
  }

  private static long residentKilobytes() {
    try {
      for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
        if (line.startsWith("RssAnon:")) return Long.parseLong(line.replaceAll("\\D", ""));
      }
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
    throw new IllegalStateException("no RssAnon");
  }

  private void connections(int count) throws Exception {
    for (int number = 0; number < count; ++number) {
      try (RawConnection connection = raw()) {
        connection.write(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + "x".repeat(100_000));
        assertTrue(connection.readUntil("x".repeat(100)).startsWith("HTTP/1.1 200"));
      }
    }
    assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
  }

  /** {@code -Dorg.libripc.jetty.soak=N} makes this test N times as long. */
  @Test
  void connectionsThatComeAndGoLeaveNothing() throws Exception {
    int count = 2000 * Integer.getInteger("org.libripc.jetty.soak", 1);
    startServer(new HttpTest.Echo(), ignored -> {});
    long leaks = Ripc.leaksReported();
    connections(count);
    System.gc();
    Thread.sleep(50);
    long threads = threadsOutsideOfPools();
    long descriptors = entries("/proc/self/fd");
    long resident = residentKilobytes();
    connections(count);
    assertTrue(eventually(() -> threadsOutsideOfPools() <= threads + 4), "threads");
    assertTrue(
        eventually(
            () -> {
              System.gc();
              return entries("/proc/self/fd") <= descriptors + 2;
            }),
        "descriptors");
    assertTrue(
        eventually(
            () -> {
              System.gc();
              return residentKilobytes() <= resident + 24_000;
            }),
        () -> resident + " KiB before, " + residentKilobytes() + " after");
    if (!isTcp()) {
      assertTrue(
          eventually(() -> serverContext.poolStatistics().leased() < 10_000_000),
          () -> serverContext.poolStatistics().toString());
    }
    assertEquals(0, ripcClient == null ? 0 : ripcClient.getConnections());
    assertEquals(leaks, Ripc.leaksReported());
  }
}
