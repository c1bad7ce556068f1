// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Two contexts as two independent peers, with one service each. The tests run once for each
 * transport in the system property {@code org.libripc.test.transports}, by default shm and socket.
 */
@ParameterizedClass
@MethodSource("org.libripc.PairTest#transports")
@Timeout(120)
abstract class PairTest {
  /** The longest wait, in seconds. */
  static final long LIMIT = 20;

  static List<String> transports() {
    return List.of(System.getProperty("org.libripc.test.transports", "shm,socket").split(","));
  }

  @Parameter String transport;
  @TempDir Path directory;

  Ripc clientContext;
  Ripc serverContext;
  Service client;
  Service server;

  @BeforeEach
  void open() {
    clientContext = context();
    serverContext = context();
    client = clientContext.register();
    server = serverContext.register();
  }

  @AfterEach
  void close() {
    clientContext.close();
    serverContext.close();
  }

  boolean isShm() {
    return transport.equals("shm");
  }

  Ripc context() {
    return context(options -> {});
  }

  Ripc context(Consumer<RipcBuilder> change) {
    RipcBuilder options =
        Ripc.builder()
            .runtimeDirectory(directory)
            .transports(transport)
            .clusterKeyFile(TestKey.in(directory));
    change.accept(options);
    return options.open();
  }

  /** Takes all messages that are there: how many. */
  static int drain(Service service) {
    int count = 0;
    for (Message message = service.poll(); message != null; message = service.poll()) {
      message.close();
      ++count;
    }
    return count;
  }

  PeerProcess peer() {
    return new PeerProcess(transport, directory);
  }

  static ByteBuffer bytes(String text) {
    return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
  }

  static String text(ByteBuffer bytes) {
    return StandardCharsets.UTF_8.decode(bytes.duplicate()).toString();
  }

  static ByteBuffer pattern(int size, long seed) {
    byte[] content = new byte[size];
    new Random(seed).nextBytes(content);
    return ByteBuffer.allocateDirect(size).put(content).flip();
  }

  static Message receive(Service service) throws InterruptedException {
    Message message = service.receive(LIMIT, TimeUnit.SECONDS);
    assertTrue(message != null, "a message came");
    return message;
  }

  static String receiveText(Service service) throws InterruptedException {
    try (Message message = receive(service)) {
      assertEquals(1, message.itemCount());
      return text(message.item(0));
    }
  }

  static Status finalStatus(Ticket ticket) throws InterruptedException, TimeoutException {
    try {
      ticket.get(LIMIT, TimeUnit.SECONDS);
      return Status.OK;
    } catch (ExecutionException failure) {
      return ((RipcException) failure.getCause()).status();
    }
  }

  /** Asks until the condition holds, or the time is over. */
  static boolean eventually(BooleanSupplier condition) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT);
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > end) return false;
      Thread.sleep(1);
    }
    return true;
  }

  static Thread thread(ThrowingRunnable body) {
    Thread thread =
        new Thread(
            () -> {
              try {
                body.run();
              } catch (Throwable thrown) {
                throw new AssertionError("in " + Thread.currentThread(), thrown);
              }
            });
    thread.start();
    return thread;
  }

  interface ThrowingRunnable {
    void run() throws Throwable;
  }
}
