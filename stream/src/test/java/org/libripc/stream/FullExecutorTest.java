// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

/** An executor that has no thread for the tasks of streams, for a while or for good. */
@ParameterizedClass
@ValueSource(strings = {"shm", "socket"})
class FullExecutorTest extends StreamFixture {
  private static final class Threads extends CachedThreads {
    volatile boolean full;

    @Override
    public void execute(Runnable task) {
      if (full) throw new RejectedExecutionException("as a test wants it");
      super.execute(task);
    }
  }

  private final Threads threads = new Threads();

  @AfterEach
  void endThreads() {
    threads.close();
  }

  private ByteStream openedHere() throws Exception {
    serve(builder -> builder.executor(threads));
    connect();
    return accepted();
  }

  @Test
  void aReaderLearnsOfTheEndOfTheService() throws Exception {
    ByteStream here = openedHere();
    CompletableFuture<Void> readable = new CompletableFuture<>();
    here.onReadable(() -> readable.complete(null));
    threads.full = true;
    server.close();
    get(readable);
    assertEquals(-1, here.read(ByteBuffer.allocate(1)));
  }

  @Test
  void aReaderLearnsOfTheEndAfterIt() throws Exception {
    ByteStream here = openedHere();
    threads.full = true;
    server.close();
    CompletableFuture<Void> readable = new CompletableFuture<>();
    here.onReadable(() -> readable.complete(null));
    get(readable);
    assertEquals(-1, here.read(ByteBuffer.allocate(1)));
  }

  @Test
  void aReaderGoesOnWhenThereIsRoom() throws Exception {
    ByteStream here = openedHere();
    here.close();
    threads.full = true;
    CompletableFuture<Void> readable = new CompletableFuture<>();
    here.onReadable(() -> readable.complete(null));
    threads.full = false;
    get(readable);
  }
}
