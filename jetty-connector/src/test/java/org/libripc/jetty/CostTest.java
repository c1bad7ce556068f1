// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.libripc.jetty.Handlers.handler;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.eclipse.jetty.client.ContentResponse;
import org.eclipse.jetty.io.RetainableByteBuffer;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.BufferUtil;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.Promise;
import org.eclipse.jetty.util.component.AbstractLifeCycle;
import org.eclipse.jetty.util.thread.QueuedThreadPool;
import org.eclipse.jetty.util.thread.Scheduler;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.ItemKind;
import org.libripc.Outgoing;
import org.libripc.Ripc;
import org.libripc.RipcBuilder;
import org.libripc.Service;
import org.libripc.ServiceId;
import org.libripc.ServiceStatistics;
import org.libripc.stream.StreamOptions;

/** What an answer costs: messages, threads that are woken, and notices of its end. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm"})
class CostTest extends HttpPairTest {
  private static final int ROUNDS = 50;
  private static final int ENOUGH = 8; // requests after which a stream knows that they take turns
  private static final long THOUGHT_NANOS = 1_000_000;
  private static final int LARGE = 900_000; // is sent where it lies
  private static final int MIDDLE = 100_000; // is copied

  /** A scheduler that never runs a task, so nothing happens because time has passed. */
  private static final class Stopped extends AbstractLifeCycle implements Scheduler {
    @Override
    public Task schedule(Runnable task, long delay, TimeUnit units) {
      return () -> true;
    }
  }

  /** Counts the tasks that are handed to another thread. */
  private static final class Counting extends QueuedThreadPool {
    private final AtomicInteger tasks = new AtomicInteger();

    @Override
    public void execute(Runnable task) {
      tasks.incrementAndGet();
      super.execute(task);
    }
  }

  private final Counting threads = new Counting();
  private RipcBuilder builder = Ripc.builder();
  private Scheduler scheduler = new Stopped();

  @Override
  RipcBuilder options() {
    return builder;
  }

  @Override
  QueuedThreadPool serverThreads() {
    return threads;
  }

  @Override
  Scheduler serverScheduler() {
    return scheduler;
  }

  /** Answers with {@code count} writes of one size, from the pool. */
  private static Handler writes(int count, int size) {
    return handler(
        (request, response, callback) -> {
          RetainableByteBuffer buffer =
              request.getComponents().getByteBufferPool().acquire(size, true);
          BufferUtil.append(buffer.getByteBuffer(), ByteBuffer.wrap(pattern(size, 1)));
          Callback whole = Callback.from(buffer::release, callback);
          write(request, response, buffer.getByteBuffer(), count, whole);
        });
  }

  private static void write(
      Request request, Response response, ByteBuffer bytes, int left, Callback callback) {
    Callback next =
        left == 1
            ? callback
            : Callback.from(
                () -> write(request, response, bytes, left - 1, callback), callback::failed);
    response.write(left == 1, bytes.slice(), next);
  }

  private void fetch(int size) throws Exception {
    fetch("/", size);
  }

  private void fetch(String path, int size) throws Exception {
    ContentResponse response = new HttpTest().send(request(path));
    assertEquals(200, response.getStatus());
    assertArrayEquals(pattern(size, 1), response.getContent());
  }

  private ServiceStatistics statistics() throws InterruptedException {
    return ((Service) serverEndPoint().getTransport()).statistics();
  }

  @Test
  void aLargeAnswerTakesOneMessageEachWayAndNoOtherThread() throws Exception {
    start(writes(1, LARGE));
    for (int count = 0; count < 2 * ENOUGH; ++count) fetch(LARGE);
    ServiceStatistics before = statistics();
    int tasks = threads.tasks.get();
    for (int count = 0; count < ROUNDS; ++count) fetch(LARGE);
    ServiceStatistics after = statistics();
    // The client may have read the last message before it was counted.
    long sent = after.messagesSent() - before.messagesSent();
    assertTrue(Math.abs(sent - ROUNDS) <= 1, sent + " messages");
    // A slow reader reports four times a second how far it is.
    long received = after.messagesReceived() - before.messagesReceived();
    assertTrue(received < ROUNDS + ROUNDS / 2, received + " messages");
    // A thread that receives may have to be started when two have been busy at once.
    int more = threads.tasks.get() - tasks;
    assertTrue(more < ROUNDS / 2, more + " tasks");
    assertEquals(0, ((RipcConnector) connector).getCopiedBytes());
  }

  /** Serves a file that is read for each request, and checks what the answers take. */
  private void aFileTakes(int size, int pieces, int credits) throws Exception {
    Path files = Files.createDirectory(directory.resolve("files"));
    Files.write(files.resolve("file"), pattern(size, 1));
    start(Handlers.files(files, (cached, read) -> new RipcContentFactory(read)));
    for (int count = 0; count < 2 * ENOUGH; ++count) fetch("/file", size);
    ServiceStatistics before = statistics();
    int tasks = threads.tasks.get();
    for (int count = 0; count < ROUNDS; ++count) fetch("/file", size);
    ServiceStatistics after = statistics();
    long sent = after.messagesSent() - before.messagesSent();
    assertTrue(Math.abs(sent - ROUNDS * pieces) <= pieces, sent + " messages");
    long received = after.messagesReceived() - before.messagesReceived();
    assertTrue(received < ROUNDS * (1 + credits) + ROUNDS / 2, received + " messages");
    int more = threads.tasks.get() - tasks;
    assertTrue(more < ROUNDS / 2, more + " tasks");
    assertEquals(0, ((RipcConnector) connector).getCopiedBytes());
  }

  @Test
  void aMiddlingFileTakesOneMessageEachWay() throws Exception {
    aFileTakes(MIDDLE, 1, 0);
  }

  @Test
  void aLargeFileTakesAMessageForEachPieceAndOneForEachHalfOfTheWindow() throws Exception {
    aFileTakes(LARGE, 4, 1);
  }

  @Test
  void aReaderThatWaitsForMoreTellsTheWriter() throws Exception {
    int count = 5;
    start(writes(count, LARGE));
    ContentResponse response = new HttpTest().send(request("/"));
    assertEquals(200, response.getStatus());
    assertEquals(count * LARGE, response.getContent().length);
  }

  @Test
  void aWriterThatGoesOnAgainstItsHabitIsFound() throws Exception {
    scheduler = null;
    int beyondTheWindow = StreamOptions.DEFAULT.window() + LARGE;
    AtomicInteger writes = new AtomicInteger(1);
    start(
        handler(
            (request, response, callback) ->
                writes(writes.get(), beyondTheWindow).handle(request, response, callback)));
    for (int count = 0; count < 2 * ENOUGH; ++count) fetch(beyondTheWindow);
    writes.set(3);
    assertEquals(3 * beyondTheWindow, new HttpTest().send(request("/")).getContent().length);
  }

  @Test
  void theEndOfAWriteIsFoundThoughTheReaderSaysNothingMore() throws Exception {
    scheduler = null;
    CountDownLatch written = new CountDownLatch(1);
    start(
        handler(
            (request, response, callback) -> {
              RetainableByteBuffer buffer =
                  request.getComponents().getByteBufferPool().acquire(LARGE, true);
              BufferUtil.append(buffer.getByteBuffer(), ByteBuffer.wrap(pattern(LARGE, 1)));
              Callback whole = Callback.from(buffer::release, callback);
              response.write(
                  true,
                  buffer.getByteBuffer(),
                  Callback.from(
                      () -> {
                        written.countDown();
                        whole.succeeded();
                      },
                      whole::failed));
            }));
    try (RawConnection connection = raw()) {
      connection.write("GET / HTTP/1.1\r\nHost: any\r\n\r\n");
      byte[] some = new byte[1 << 16];
      int count = connection.read(some);
      int head = new String(some, 0, count, StandardCharsets.ISO_8859_1).indexOf("\r\n\r\n") + 4;
      // Reads up to the last byte, and not once more.
      for (int left = head + LARGE - count; left > 0; ) left -= connection.read(some);
      assertTrue(written.await(LIMIT, TimeUnit.SECONDS));
    }
  }

  @Test
  void nobodyIsToldThatACopyWasRead() throws Exception {
    start(writes(1, MIDDLE));
    try (RawConnection connection = raw()) {
      connection.write("GET / HTTP/1.1\r\nHost: any\r\n\r\n");
      Service service = (Service) serverEndPoint().getTransport();
      // The service only keeps track of quiet messages while they are under way.
      assertTrue(eventually(() -> service.settle() == 1));
      assertTrue(connection.readUntil("\r\n\r\n").startsWith("HTTP/1.1 200"));
    }
  }

  /** Counts the requests that woke the server. Their client thinks before each. */
  private long wakes(long spinNanos) throws Exception {
    builder = builder.spin(LIMIT, TimeUnit.SECONDS);
    StreamOptions options = StreamOptions.DEFAULT.withSpinNanos(spinNanos);
    start(Handlers.ok(), started -> ((RipcConnector) started).setOptions(options));
    try (RawConnection.Stream connection = (RawConnection.Stream) raw()) {
      long before = 0;
      for (int count = 0; count < 2 * ROUNDS; ++count) {
        if (count == ROUNDS) before = connection.endPoint.getTransport().statistics().wakesSent();
        connection.write("GET / HTTP/1.1\r\nHost: any\r\n\r\n");
        assertTrue(connection.readUntil("\r\n\r\n").startsWith("HTTP/1.1 200"));
        LockSupport.parkNanos(THOUGHT_NANOS);
      }
      return connection.endPoint.getTransport().statistics().wakesSent() - before;
    }
  }

  @Test
  void requestsSeldomWakeAServerThatSpins() throws Exception {
    long wakes = wakes(TimeUnit.SECONDS.toNanos(LIMIT));
    assertTrue(wakes < ROUNDS / 2, wakes + " times");
  }

  /** Counts how many messages of the largest short size fit at a service that does not receive. */
  private static int fill(Service from, ServiceId to) {
    ByteBuffer bytes = ByteBuffer.allocateDirect(StreamOptions.DEFAULT.shortLimit());
    int count = 0;
    while (from.trySend(to, new Outgoing().add(bytes.clear(), ItemKind.SHORT)) != null) ++count;
    return count;
  }

  @Test
  void theQueueOfAClientTakesTheAnswersOfManyConnections() throws Exception {
    clientContext = context();
    ripcClient = new RipcClient(clientContext);
    ripcClient.setExecutor(task -> {}); // so nobody receives
    ripcClient.start();
    serverContext = context();
    try (Service other = serverContext.service().register()) {
      int count = fill(other, ripcClient.getServiceId());
      assertTrue(count >= 60, count + " messages");
    }
  }

  @Test
  void theQueueOfAServerTakesTheRequestsOfManyConnections() throws Exception {
    CountDownLatch asked = new CountDownLatch(1);
    CountDownLatch release = new CountDownLatch(1);
    startServer(
        Handlers.ok(),
        started ->
            ((RipcConnector) started)
                .setAccess(
                    id -> {
                      asked.countDown();
                      try {
                        return release.await(LIMIT, TimeUnit.SECONDS);
                      } catch (InterruptedException stopped) {
                        return false;
                      }
                    }));
    clientContext = context();
    ripcClient = new RipcClient(clientContext);
    ripcClient.start();
    ripcClient.connect(
        ServiceId.ofName(SERVICE),
        0,
        new Promise<>() {
          @Override
          public void failed(Throwable problem) {}
        });
    try (Service other = clientContext.service().register()) {
      assertTrue(asked.await(LIMIT, TimeUnit.SECONDS));
      int count = fill(other, ServiceId.ofName(SERVICE));
      assertTrue(count >= 60, count + " messages");
    } finally {
      release.countDown();
    }
  }
}
