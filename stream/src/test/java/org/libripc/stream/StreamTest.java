// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.RegisteredBuffer;
import org.libripc.Ripc;
import org.libripc.Service;
import org.libripc.ServiceId;

/** Streams as a program without Jetty uses them. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
@Timeout(60)
class StreamTest {
  private static final long LIMIT = 20; // seconds, for any step
  private static final ServiceId SERVER = ServiceId.ofName("stream-test");

  @Parameter String transport;
  @TempDir Path directory;

  private final BlockingQueue<ByteStream> opened = new LinkedBlockingQueue<>();
  private Ripc serverContext;
  private Ripc clientContext;
  private StreamService server;
  private StreamService client;

  @BeforeEach
  void open() throws IOException {
    Path key = directory.resolve("cluster.key");
    Files.createFile(
        key, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    byte[] random = new byte[32];
    new SecureRandom().nextBytes(random);
    Files.writeString(key, HexFormat.of().formatHex(random));
    serverContext = context(key);
    clientContext = context(key);
    client = StreamService.builder(clientContext.service()).start();
  }

  private Ripc context(Path key) {
    return Ripc.builder()
        .runtimeDirectory(directory.resolve("run"))
        .transports(transport)
        .clusterKeyFile(key)
        .open();
  }

  @AfterEach
  void close() {
    client.close();
    if (server != null) server.close();
    clientContext.close();
    serverContext.close();
  }

  private void serve(Consumer<StreamServiceBuilder> change) {
    StreamServiceBuilder builder =
        StreamService.builder(serverContext.service().name("stream-test")).acceptor(opened::add);
    change.accept(builder);
    server = builder.start();
  }

  private void restartClient(StreamOptions options) {
    client.close();
    client = StreamService.builder(clientContext.service()).options(options).start();
  }

  private ByteStream connect() throws Exception {
    return get(client.connect(SERVER, LIMIT, TimeUnit.SECONDS));
  }

  private ByteStream accepted() throws InterruptedException {
    ByteStream stream = opened.poll(LIMIT, TimeUnit.SECONDS);
    assertTrue(stream != null, "a stream was opened");
    return stream;
  }

  private static <T> T get(CompletableFuture<T> future) throws Exception {
    return future.get(LIMIT, TimeUnit.SECONDS);
  }

  private static Throwable failure(CompletableFuture<?> future) {
    return assertThrows(ExecutionException.class, () -> get(future)).getCause();
  }

  private static ByteBuffer pattern(int size) {
    byte[] bytes = new byte[size];
    new Random(size).nextBytes(bytes);
    return ByteBuffer.allocateDirect(size).put(bytes).flip();
  }

  /** Reads at least this many bytes, or up to the end of the stream. */
  private static byte[] read(ByteStream stream, int size) throws Exception {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    ByteBuffer some = ByteBuffer.allocate(50_000);
    while (all.size() < size) {
      int count = stream.read(some.clear());
      if (count < 0) break;
      if (count == 0) {
        CompletableFuture<Void> more = new CompletableFuture<>();
        stream.onReadable(() -> more.complete(null));
        get(more);
      }
      all.write(some.array(), 0, count);
    }
    return all.toByteArray();
  }

  private static byte[] bytes(ByteBuffer buffer) {
    byte[] all = new byte[buffer.capacity()];
    buffer.duplicate().clear().get(all);
    return all;
  }

  @Test
  void bytesComeInTheirOrderInBothDirections() throws Exception {
    serve(builder -> {});
    ByteStream there = connect();
    ByteStream here = accepted();
    assertEquals(client.service().id(), here.peer());
    assertEquals(there.number(), here.number());
    for (int size : new int[] {1, 1000, 20_000, 300_000, 5_000_000}) {
      ByteBuffer request = pattern(size);
      ByteBuffer head = pattern(7);
      CompletableFuture<Void> written = there.write(head, request);
      byte[] got = read(here, size + 7);
      get(written);
      assertEquals(size + 7, got.length);
      ByteBuffer answer = ByteBuffer.wrap(got);
      CompletableFuture<Void> back = here.write(answer);
      assertArrayEquals(got, read(there, size + 7));
      get(back);
    }
  }

  @Test
  void eachDirectionEndsByItself() throws Exception {
    serve(builder -> {});
    ByteStream there = connect();
    ByteStream here = accepted();
    there.shutdownOutput();
    assertEquals(0, read(here, 1).length);
    assertInstanceOf(IOException.class, failure(there.write(pattern(1))));
    get(here.write(pattern(100)));
    here.shutdownOutput();
    assertArrayEquals(bytes(pattern(100)), read(there, 1000));
  }

  @Test
  void aWriteUnderWayIsReadBeforeTheEnd() throws Exception {
    serve(builder -> {});
    for (ByteBuffer all : List.of(pattern(5_000_000), ByteBuffer.wrap(bytes(pattern(5_000_000))))) {
      ByteStream there = connect();
      CompletableFuture<Void> written = there.write(all);
      assertFalse(written.isDone());
      there.shutdownOutput();
      assertArrayEquals(bytes(pattern(5_000_000)), read(accepted(), 6_000_000));
      get(written);
      assertInstanceOf(IOException.class, failure(there.write(pattern(1))));
    }
  }

  @Test
  void whatWasWrittenBeforeACloseIsRead() throws Exception {
    serve(builder -> {});
    ByteStream there = connect();
    get(there.write(pattern(100_000)));
    there.close();
    assertFalse(there.isOpen());
    assertEquals(-1, there.read(ByteBuffer.allocate(1)));
    assertArrayEquals(bytes(pattern(100_000)), read(accepted(), 1_000_000));
  }

  @Test
  void aPeerThatDoesNotReadStopsTheWriter() throws Exception {
    serve(builder -> builder.options(StreamOptions.DEFAULT.withWindow(100_000)));
    ByteStream there = connect();
    int count = 0;
    CompletableFuture<Void> written = there.write(pattern(20_000));
    for (; written.isDone(); ++count) {
      assertTrue(count < 100, "it stops");
      written = there.write(pattern(20_000));
    }
    assertThrows(IllegalStateException.class, () -> there.write(pattern(1)));
    byte[] all = read(accepted(), (count + 1) * 20_000);
    assertEquals((count + 1) * 20_000, all.length);
    get(written);
  }

  @Test
  void whatIsGivenIsWrittenAtOnce() throws Exception {
    serve(builder -> {});
    ByteStream there = connect();
    try (RegisteredBuffer memory = clientContext.lease(400_000)) {
      ByteBuffer buffer = memory.buffer().put(pattern(400_000)).flip();
      there.give(buffer);
      assertTrue(there.write(buffer).isDone());
    }
    assertArrayEquals(bytes(pattern(400_000)), read(accepted(), 400_000));
    assertEquals(0, client.copiedBytes());
  }

  @Test
  void whoIsNotAdmittedIsRefused() throws Exception {
    serve(builder -> builder.access(id -> false));
    Throwable refused = failure(client.connect(SERVER, LIMIT, TimeUnit.SECONDS));
    assertInstanceOf(ConnectException.class, refused);
    assertTrue(refused.getMessage().contains("does not admit"), refused.getMessage());
  }

  @Test
  void moreStreamsThanTheLimitAreRefused() throws Exception {
    serve(builder -> builder.maxStreams(1));
    try (ByteStream first = connect()) {
      assertInstanceOf(
          ConnectException.class, failure(client.connect(SERVER, LIMIT, TimeUnit.SECONDS)));
      assertTrue(first.isOpen());
    }
  }

  @Test
  void whoOpensOneWaitsWhileNoneAreAccepted() throws Exception {
    serve(builder -> builder.accepting(false));
    CompletableFuture<ByteStream> first = client.connect(SERVER, LIMIT, TimeUnit.SECONDS);
    assertTrue(ReceivingThreadsFixture.eventually(() -> server.waitingClients() == 1));
    server.setAccepting(true);
    assertTrue(get(first).isOpen());
    server.setAccepting(false);
    CompletableFuture<ByteStream> second = client.connect(SERVER, LIMIT, TimeUnit.SECONDS);
    assertTrue(ReceivingThreadsFixture.eventually(() -> server.waitingClients() == 1));
    server.refuseAll();
    assertInstanceOf(ConnectException.class, failure(second));
  }

  @Test
  void whoComesWhileAllAreRefusedIsRefused() throws Exception {
    serve(
        builder ->
            builder.access(
                id -> {
                  server.refuseAll();
                  return true;
                }));
    Throwable refused = failure(client.connect(SERVER, LIMIT, TimeUnit.SECONDS));
    assertInstanceOf(ConnectException.class, refused);
    assertTrue(refused.getMessage().contains("is stopping"), refused.getMessage());
    assertTrue(opened.isEmpty());
  }

  @Test
  void aConnectEndsWithItsTime() throws Exception {
    try (Service deaf = serverContext.register()) {
      assertInstanceOf(
          SocketTimeoutException.class,
          failure(client.connect(deaf.id(), 50, TimeUnit.MILLISECONDS)));
    }
  }

  @Test
  void anAcceptorThatFailsEndsTheStream() throws Exception {
    serve(
        builder ->
            builder.acceptor(
                stream -> {
                  throw new IllegalStateException("as a test wants it");
                }));
    assertInstanceOf(
        ConnectException.class, failure(client.connect(SERVER, LIMIT, TimeUnit.SECONDS)));
  }

  @Test
  void theEndOfAServiceEndsItsStreams() throws Exception {
    serve(builder -> {});
    ByteStream there = connect();
    ByteStream here = accepted();
    CompletableFuture<Void> readable = new CompletableFuture<>();
    here.onReadable(() -> readable.complete(null));
    server.close();
    get(readable);
    assertFalse(here.isOpen());
    assertEquals(0, read(there, 1).length);
    assertEquals(0, server.streams().size());
  }

  @Test
  void anEndThatWaitsForNoBytesWaitsForTheReceivingThreads() throws Exception {
    for (int round = 0; round < 50; ++round) {
      restartClient(StreamOptions.DEFAULT.withLingerMillis(0));
      client.close();
      assertTrue(client.toString().contains("waiting=0"), client::toString);
    }
  }

  @Test
  void aWriteThatACloseBreaksOffIsNoEndOfTheStream() throws Exception {
    serve(builder -> {});
    ByteStream there = connect();
    ByteStream here = accepted();
    CompletableFuture<Void> written = there.write(ByteBuffer.wrap(bytes(pattern(5_000_000))));
    assertFalse(written.isDone());
    there.close();
    assertInstanceOf(IOException.class, failure(written));
    assertThrows(IOException.class, () -> read(here, 5_000_000));
  }

  @Test
  void aCloseEndsAWriteForWhichThereIsNoRoom() throws Exception {
    CountDownLatch inside = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    serve(builder -> builder.options(StreamOptions.DEFAULT.withShortLimit(1024)));
    ByteStream there = connect();
    accepted()
        .listen(
            new ByteStream.Listener() {
              @Override
              public void used() {
                inside.countDown();
                try {
                  go.await();
                } catch (InterruptedException interrupted) {
                  Thread.currentThread().interrupt();
                }
              }

              @Override
              public void stopping() {}
            });
    try {
      CompletableFuture<Void> written = there.write(pattern(1000));
      assertTrue(inside.await(LIMIT, TimeUnit.SECONDS));
      for (int count = 0; written.isDone(); ++count) {
        assertTrue(count < 10_000, "it stops");
        written = there.write(pattern(1000));
      }
      there.close();
      assertInstanceOf(IOException.class, failure(written));
    } finally {
      go.countDown();
    }
  }

  @Test
  void manySmallPartsTravelNearTheShortLimit() throws Exception {
    serve(builder -> builder.options(StreamOptions.DEFAULT.withShortLimit(1024)));
    restartClient(StreamOptions.DEFAULT.withShortLimit(1 << 20).withReturnBytes(4096));
    ByteStream there = connect();
    ByteStream here = accepted();
    int limit = (int) client.service().shortLimit(SERVER, 8);
    for (int count : new int[] {60, 1}) {
      for (int size = limit - 400; size <= limit; size += 20) {
        ByteBuffer[] parts = new ByteBuffer[count];
        Arrays.setAll(parts, index -> pattern(1));
        parts[0] = pattern(size - Frame.BYTES - count + 1);
        CompletableFuture<Void> written = there.write(parts);
        assertEquals(size - Frame.BYTES, read(here, size - Frame.BYTES).length);
        get(written);
        get(here.write(pattern(2000)));
        read(there, 2000);
      }
    }
  }

  // The other side keeps a message that offers a return buffer until it answers.
  @Test
  void aLargeWriteNeedsNoAnswerToBeComplete() throws Exception {
    serve(builder -> {});
    restartClient(StreamOptions.DEFAULT.withReturnBytes(100_000));
    ByteStream there = connect();
    ByteStream here = accepted();
    try (RegisteredBuffer memory = clientContext.lease(300_000)) {
      CompletableFuture<Void> written = there.write(memory.buffer().put(pattern(300_000)).flip());
      assertArrayEquals(bytes(pattern(300_000)), read(here, 300_000));
      get(written);
    }
  }

  // Over shared memory, nothing but the poller shows that the bytes were taken.
  @Test
  void anExecutorThatFailsStopsNoOtherWriter() throws Exception {
    serve(builder -> {});
    client.close();
    AtomicReference<Thread> failing = new AtomicReference<>();
    CountDownLatch failed = new CountDownLatch(1);
    CachedThreads threads =
        new CachedThreads() {
          @Override
          public void execute(Runnable task) {
            if (failed.getCount() > 0 && Thread.currentThread() == failing.get()) {
              failed.countDown();
              throw new IllegalStateException("as a test wants it");
            }
            super.execute(task);
          }

          @Override
          public Runnable schedule(Runnable task, long delay, TimeUnit unit) {
            return super.schedule(
                () -> {
                  failing.set(Thread.currentThread()); // the only thread of the timer
                  task.run();
                },
                delay,
                unit);
          }
        };
    client = StreamService.builder(clientContext.service()).executor(threads).start();
    for (int round = 0; round < 2; ++round) {
      ByteStream there = connect();
      ByteStream here = accepted();
      CompletableFuture<Void> written = there.write(pattern(300_000));
      CompletableFuture<Void> readable = new CompletableFuture<>();
      here.onReadable(() -> readable.complete(null));
      get(readable);
      assertEquals(300_000, here.read(ByteBuffer.allocate(300_000)));
      if (round == 0 && transport.equals("shm")) {
        assertTrue(failed.await(LIMIT, TimeUnit.SECONDS));
      } else {
        get(written);
      }
    }
    client.close();
    threads.close();
  }

  // Whoever reads while another thread closes the stream must not see what others write into memory
  // that the stream has given back.
  @Test
  void memoryThatIsGivenBackIsNotRead() throws Exception {
    serve(builder -> {});
    AtomicReference<Runnable> atEachTask = new AtomicReference<>(() -> {});
    client.close();
    CachedThreads threads =
        new CachedThreads() {
          @Override
          public void execute(Runnable task) {
            atEachTask.get().run();
            super.execute(task);
          }
        };
    client =
        StreamService.builder(clientContext.service())
            .executor(threads)
            .options(StreamOptions.DEFAULT.withReturnBytes(100_000))
            .start();
    ByteStream there = connect();
    ByteStream here = accepted();
    get(there.write(pattern(1)));
    read(here, 1);
    CompletableFuture<Void> answered = here.write(pattern(10), pattern(100_000));
    CompletableFuture<Void> readable = new CompletableFuture<>();
    there.onReadable(() -> readable.complete(null));
    get(readable);
    get(answered);
    assertEquals(1, client.returnedParts());
    assertFalse(there.write(ByteBuffer.wrap(bytes(pattern(5_000_000)))).isDone());
    ByteBuffer seen = ByteBuffer.allocate(200_000);
    atEachTask.set(
        () -> {
          atEachTask.set(() -> {});
          try (RegisteredBuffer reused = clientContext.lease(100_000)) {
            reused.buffer().put(new byte[100_000]);
            there.read(seen);
          } catch (IOException closed) {
            seen.clear();
          }
        });
    there.close();
    if (seen.position() == 100_010) {
      assertArrayEquals(bytes(pattern(100_000)), Arrays.copyOfRange(seen.array(), 10, 100_010));
    }
    threads.close();
  }

  @Test
  void aLargeShortLimitMakesALargeQueue() {
    assertEquals(64 << 20, StreamOptions.DEFAULT.withShortLimit(17 << 20).queueBytes());
    assertEquals(64 << 20, StreamOptions.DEFAULT.withShortLimit(32 << 20).queueBytes());
    assertEquals(64 << 20, StreamOptions.DEFAULT.withShortLimit(64 << 20).queueBytes());
  }
}
