// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.Message;
import org.libripc.RegisteredBuffer;
import org.libripc.Service;

/** Streams as a program without Jetty uses them. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class StreamTest extends StreamFixture {
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
  void bytesWrittenBeforeACloseAreRead() throws Exception {
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
  void aWriterWithASmallerWindowGoesOnWhenItWasRead() throws Exception {
    serve(builder -> builder.options(StreamOptions.DEFAULT.withWindow(64 << 10)));
    ByteStream there = connect();
    ByteStream here = accepted();
    for (int piece = 0; piece < 128; ++piece) {
      CompletableFuture<Void> written = here.write(pattern(8 << 10));
      assertEquals(8 << 10, read(there, 8 << 10).length);
      get(written);
    }
  }

  // All of its messages are copies, and no event reports their end.
  @Test
  void aWriteOfMorePiecesThanMayBeUnderWayIsComplete() throws Exception {
    StreamOptions large = StreamOptions.DEFAULT.withWindow(8 << 20);
    serve(builder -> builder.options(large));
    restartClient(large);
    ByteStream there = connect();
    ByteStream here = accepted();
    ByteBuffer all = ByteBuffer.wrap(bytes(pattern(6 << 20)));
    CompletableFuture<Void> written = there.write(all);
    assertArrayEquals(all.array(), read(here, 6 << 20));
    get(written);
  }

  @Test
  void givenMemoryIsWrittenAtOnce() throws Exception {
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
  void aReaderLearnsOfTheEndAfterIt() throws Exception {
    serve(builder -> {});
    connect();
    ByteStream here = accepted();
    server.close();
    CompletableFuture<Void> readable = new CompletableFuture<>();
    here.onReadable(() -> readable.complete(null));
    get(readable);
    assertEquals(-1, here.read(ByteBuffer.allocate(1)));
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

  /** Threads that throw an error instead of running a task, once after each {@code fails}. */
  private static final class FailingThreads extends CachedThreads {
    final AtomicBoolean fails = new AtomicBoolean();

    @Override
    public void execute(Runnable task) {
      if (fails.getAndSet(false)) throw new InternalError("as a test wants it");
      super.execute(task);
    }
  }

  @Test
  void anErrorDuringAWriteBreaksTheStream() throws Exception {
    StreamOptions large = StreamOptions.DEFAULT.withWindow(8 << 20);
    serve(builder -> builder.options(large));
    client.close();
    FailingThreads threads = new FailingThreads();
    client =
        StreamService.builder(clientContext.service()).executor(threads).options(large).start();
    ByteStream there = connect();
    ByteStream here = accepted();
    threads.fails.set(true);
    // The rest, after the pieces that may be under way, is a task of its own.
    CompletableFuture<Void> written = there.write(ByteBuffer.wrap(bytes(pattern(6 << 20))));
    assertInstanceOf(IOException.class, failure(written));
    assertInstanceOf(IOException.class, failure(there.write(pattern(1))));
    there.close();
    assertThrows(IOException.class, () -> read(here, 6 << 20));
    threads.close();
  }

  @Test
  void anErrorBeforeAnAnswerToAnUnknownStreamStopsNoLaterAnswer() throws Exception {
    FailingThreads threads = new FailingThreads();
    serve(builder -> builder.executor(threads));
    try (Service stranger = clientContext.register()) {
      ByteBuffer data = new Frame(Frame.Type.DATA, 0, Frame.Reason.NONE, 0, 0, 0).encode();
      threads.fails.set(true);
      stranger.send(SERVER, data, 1);
      assertTrue(ReceivingThreadsFixture.eventually(() -> !threads.fails.get()));
      stranger.send(SERVER, data, 2);
      for (int tag = 0; tag != 2; ) {
        try (Message answer = stranger.receive(LIMIT, TimeUnit.SECONDS)) {
          assertTrue(answer != null, "an answer came");
          assertEquals(Frame.Type.RESET, Frame.decode(answer.item(0)).type());
          tag = answer.tag();
        }
      }
    }
    server.close();
    threads.close();
  }

  // One message may wake the writer and the reader.
  @Test
  void anExecutorThatFailsWithTheReaderWakesTheWriter() throws Exception {
    serve(builder -> {});
    client.close();
    Runnable reader = () -> {};
    CachedThreads threads =
        new CachedThreads() {
          @Override
          public void execute(Runnable task) {
            if (task == reader) throw new IllegalStateException("as a test wants it");
            super.execute(task);
          }
        };
    client = StreamService.builder(clientContext.service()).executor(threads).start();
    ByteStream there = connect();
    CompletableFuture<Void> written = there.write(ByteBuffer.wrap(bytes(pattern(5_000_000))));
    assertFalse(written.isDone());
    there.onReadable(reader);
    accepted().out().control(Frame.Type.RESET, 0, Frame.Reason.ABORTED);
    assertInstanceOf(IOException.class, failure(written));
    threads.close();
  }

  // While another thread closes the stream, a reader must not see what others write into memory
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
