// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.Parameter;
import org.libripc.Ripc;
import org.libripc.ServiceId;

/** A server and a client of streams in two contexts. */
@Timeout(60)
abstract class StreamFixture {
  static final long LIMIT = 20; // seconds, for any step
  static final ServiceId SERVER = ServiceId.ofName("stream-test");

  @Parameter String transport;
  @TempDir Path directory;

  final BlockingQueue<ByteStream> opened = new LinkedBlockingQueue<>();
  Ripc serverContext;
  Ripc clientContext;
  StreamService server;
  StreamService client;

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

  Ripc context(Path key) {
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

  void serve(Consumer<StreamServiceBuilder> change) {
    StreamServiceBuilder builder =
        StreamService.builder(serverContext.service().name("stream-test")).acceptor(opened::add);
    change.accept(builder);
    server = builder.start();
  }

  void restartClient(StreamOptions options) {
    client.close();
    client = StreamService.builder(clientContext.service()).options(options).start();
  }

  ByteStream connect() throws Exception {
    return get(client.connect(SERVER, LIMIT, TimeUnit.SECONDS));
  }

  ByteStream accepted() throws InterruptedException {
    ByteStream stream = opened.poll(LIMIT, TimeUnit.SECONDS);
    assertTrue(stream != null, "a stream was opened");
    return stream;
  }

  static <T> T get(CompletableFuture<T> future) throws Exception {
    return future.get(LIMIT, TimeUnit.SECONDS);
  }

  static Throwable failure(CompletableFuture<?> future) {
    return assertThrows(ExecutionException.class, () -> get(future)).getCause();
  }

  static ByteBuffer pattern(int size) {
    byte[] bytes = new byte[size];
    new Random(size).nextBytes(bytes);
    return ByteBuffer.allocateDirect(size).put(bytes).flip();
  }

  /** Reads at least this many bytes, or up to the end of the stream. */
  static byte[] read(ByteStream stream, int size) throws Exception {
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

  static byte[] bytes(ByteBuffer buffer) {
    byte[] all = new byte[buffer.capacity()];
    buffer.duplicate().clear().get(all);
    return all;
  }
}
