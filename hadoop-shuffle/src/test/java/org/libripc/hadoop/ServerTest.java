// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import javax.crypto.SecretKey;
import javax.crypto.spec.SecretKeySpec;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.task.reduce.MapHost;
import org.apache.hadoop.mapreduce.task.reduce.MapOutput;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleClientMetrics;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.metrics2.lib.MutableCounterLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.ReturnBuffer;
import org.libripc.Ripc;
import org.libripc.ServiceId;
import org.libripc.Status;
import org.libripc.ViewKind;
import org.libripc.rpc.CallOutcome;
import org.libripc.rpc.CallResult;
import org.libripc.rpc.RpcCall;

/** A reducer's calls to a NodeManager, both in this process; in the RDMA lab over verbs. */
@Tag("verbs")
@Timeout(60)
class ServerTest {
  private static final String JOB = MapFiles.JOB.toString();
  private static final SecretKey KEY = new SecretKeySpec(new byte[] {1, 2, 3}, "HmacSHA1");
  private static final SecretKey WRONG = new SecretKeySpec(new byte[] {1, 2, 4}, "HmacSHA1");
  private static final int REDUCE = 1;

  @TempDir Path folder;
  private final String name = "test-" + ProcessHandle.current().pid() + "-" + System.nanoTime();
  private final Map<String, SecretKey> keys = new LinkedHashMap<>(Map.of(JOB, KEY));
  private MapFiles maps;
  private final Set<String> readers = ConcurrentHashMap.newKeySet();
  private volatile Runnable beforeFinding = () -> {};
  private long indexBytes = 1 << 20;
  private HandlerMetrics metrics;
  private ShuffleServer server;
  private RemoteShuffle shuffle;

  @BeforeEach
  void begin() {
    maps = new MapFiles(folder.resolve("usercache/ada/appcache/application_1700000000000_0001"));
    DefaultMetricsSystem.setMiniClusterMode(true);
    metrics = DefaultMetricsSystem.instance().register(new HandlerMetrics());
    server = serve(256, 1 << 24);
    shuffle = new RemoteShuffle(maps.conf, JOB, KEY);
  }

  private ShuffleServer serve(int queue, int underWay) {
    MapOutputs outputs =
        new MapOutputs(
            relative -> {
              Path file = folder.resolve(relative);
              if (!Files.exists(file)) throw new IOException("no " + file);
              return file.toFile();
            },
            maps.conf,
            indexBytes,
            4);
    return new ShuffleServer(
        Ripc.builder(),
        Wire.serviceName(name),
        new ShuffleServer.Jobs() {
          @Override
          public SecretKey key(String job) {
            return keys.get(job);
          }

          @Override
          public String user(String job) {
            readers.add(Thread.currentThread().getName());
            beforeFinding.run();
            return keys.containsKey(job) ? "ada" : null;
          }
        },
        outputs,
        new DirectoryReaders(2, queue),
        new Sessions(100),
        underWay,
        metrics);
  }

  /** Another server in place of the one that runs. */
  private void serveAgain(int queue, int underWay) throws Exception {
    server.close();
    server = serve(queue, underWay);
    shuffle.ripc().waitService(ServiceId.ofName(Wire.serviceName(name)), 10, TimeUnit.SECONDS);
  }

  @AfterEach
  void end() {
    shuffle.close();
    server.close();
    DefaultMetricsSystem.instance().unregisterSource(HandlerMetrics.SOURCE);
  }

  /** Keeps what comes. */
  private static final class Taken implements RemoteFetch.Target<Object, Object> {
    final Map<TaskAttemptID, byte[]> came = new LinkedHashMap<>();
    final Map<TaskAttemptID, Fallback> failed = new LinkedHashMap<>();
    int room = Integer.MAX_VALUE;
    int aborted;
    TaskAttemptID damaged;
    IOException problem = new IOException("a wrong checksum");
    Runnable beforeReading = () -> {};

    @Override
    public MapOutput<Object, Object> reserve(TaskAttemptID map, Wire.Size size) {
      if (room-- == 0) return null;
      return new MapOutput<>(map, size.raw(), true) {
        @Override
        public void shuffle(
            MapHost host,
            InputStream in,
            long part,
            long raw,
            ShuffleClientMetrics metrics,
            Reporter reporter) {}

        @Override
        public void commit() {}

        @Override
        public void abort() {
          ++aborted;
        }

        @Override
        public String getDescription() {
          return "test";
        }
      };
    }

    @Override
    public void fill(
        TaskAttemptID map, MapOutput<Object, Object> output, Wire.Size size, InputStream in)
        throws IOException {
      beforeReading.run();
      if (map.equals(damaged)) {
        in.read(new byte[3]);
        throw problem;
      }
      came.put(map, in.readAllBytes());
    }

    @Override
    public void failed(TaskAttemptID map, ShuffleFailure why) {
      failed.put(map, why.why());
    }
  }

  private final Taken taken = new Taken();

  private boolean fetch(int... which) throws Exception {
    List<TaskAttemptID> wanted = new ArrayList<>();
    for (int map : which) wanted.add(MapFiles.attempt(map));
    return new RemoteFetch<>(shuffle, shuffle.host(name), REDUCE, taken).fetch(wanted);
  }

  private void write(int map, int records, int longest) throws IOException {
    Random random = new Random(map);
    maps.write(
        map,
        null,
        List.of(
            MapFiles.records(random, 10, 100),
            MapFiles.records(random, records, longest),
            MapFiles.records(random, 10, 100)));
  }

  private byte[] part(int map) throws IOException {
    LocalOutput part = new LocalOutputs(maps.conf, REDUCE).find(MapFiles.attempt(map));
    try (InputStream in = part.open(maps.conf)) {
      return in.readAllBytes();
    }
  }

  private void checkCame(int... which) throws IOException {
    assertEquals(which.length, taken.came.size());
    for (int map : which) assertArrayEquals(part(map), taken.came.get(MapFiles.attempt(map)));
  }

  private static long value(MutableCounterLong counter) {
    return counter.value();
  }

  @Test
  void smallOnesComeTogether() throws Exception {
    int[] which = new int[20];
    for (int map = 0; map < which.length; ++map) {
      which[map] = map;
      write(map, 20, 40);
    }
    assertFalse(fetch(which));
    checkCame(which);
    // The server counts an answer after it has sent it.
    await(() -> value(metrics.dataRequests) > 0);
    assertEquals(1, value(metrics.dataRequests), "one piece holds them all");
    assertEquals(1, value(metrics.sizeRequests));
  }

  @Test
  void aLargeOneComesInPieces() throws Exception {
    maps.conf.setInt(Keys.PIECE_BYTES, 64 << 10);
    shuffle = new RemoteShuffle(maps.conf, JOB, KEY);
    write(0, 2000, 1000);
    write(1, 0, 0);
    write(2, 3000, 100);
    assertFalse(fetch(0, 1, 2));
    checkCame(0, 1, 2);
    long bytes = taken.came.values().stream().mapToLong(each -> each.length).sum();
    await(() -> value(metrics.bytes) >= bytes);
    assertEquals(bytes, value(metrics.bytes));
    assertTrue(value(metrics.dataRequests) >= bytes / (64 << 10));
  }

  @Test
  void piecesComeAheadOfTheReader() throws Exception {
    maps.conf.setInt(Keys.PIECES, 3);
    shuffle = new RemoteShuffle(maps.conf, JOB, KEY);
    write(0, 1200, 10_000); // six pieces of 1 MiB
    taken.beforeReading =
        () -> {
          await(() -> value(metrics.dataRequests) >= 3);
          assertEquals(3, value(metrics.dataRequests));
        };
    fetch(0);
    checkCame(0);
  }

  @ParameterizedTest
  @ValueSource(ints = {1 << 20, Keys.LARGEST_PIECE})
  void aPieceIsWrittenIntoMemoryThatTheReducerLeased(int length) throws Exception {
    write(0, 1200, 10_000);
    RemoteHost host = shuffle.host(name);
    Wire.Range range = new Wire.Range(MapFiles.attempt(0).toString(), 1000, length);
    ByteBuffer request = Wire.encode(new Wire.Data(host.head(REDUCE), List.of(range)), KEY);
    try (RegisteredBuffer memory = shuffle.ripc().lease(length)) {
      Outgoing room = new Outgoing().attach(new ReturnBuffer(memory));
      try (CallResult result = RemoteHost.await(host.call(Wire.DATA, request, room))) {
        assertEquals(Wire.OK, result.code());
        assertEquals(ViewKind.RETURNED, result.kind(0));
      }
      assertEquals(ByteBuffer.wrap(part(0), 1000, length), memory.buffer());
    }
  }

  @Test
  void withoutRoomTheRestWaits() throws Exception {
    for (int map = 0; map < 5; ++map) write(map, 20, 40);
    taken.room = 3;
    assertTrue(fetch(0, 1, 2, 3, 4));
    checkCame(0, 1, 2);
  }

  @Test
  void whatIsNotThereIsLeftOut() throws Exception {
    write(0, 20, 40);
    write(2, 20, 40);
    assertFalse(fetch(0, 1, 2));
    checkCame(0, 2);
    assertEquals(Map.of(MapFiles.attempt(1), Fallback.NOT_THERE), taken.failed);
  }

  @Test
  void aDamagedOneHurtsNoOther() throws Exception {
    for (int map = 0; map < 4; ++map) write(map, 2000, 400);
    taken.damaged = MapFiles.attempt(1);
    assertFalse(fetch(0, 1, 2, 3));
    checkCame(0, 2, 3);
    assertEquals(Map.of(MapFiles.attempt(1), Fallback.CHECKSUM), taken.failed);
    assertEquals(1, taken.aborted);
  }

  @Test
  void aFullDiskOfTheReducerIsNoDamage() throws Exception {
    for (int map = 0; map < 3; ++map) write(map, 20, 40);
    taken.damaged = MapFiles.attempt(1);
    taken.problem = new ReducerFailure(new IOException("No space left on device"));
    assertSame(taken.problem, assertThrows(ReducerFailure.class, () -> fetch(0, 1, 2)));
    checkCame(0);
    assertEquals(Map.of(), taken.failed);
    assertEquals(2, taken.aborted);
  }

  @Test
  void aFileThatBecomesShorterIsNamed() throws Exception {
    for (int map = 0; map < 3; ++map) write(map, 20, 40);
    shuffle.host(name).sizes(REDUCE, List.of(MapFiles.attempt(1).toString()));
    Files.write(maps.data(1), new byte[10]);
    ShuffleFailure failure = assertThrows(ShuffleFailure.class, () -> fetch(0, 1, 2));
    assertEquals(Fallback.NOT_THERE, failure.why());
    assertEquals(MapFiles.attempt(1), failure.output());
    assertEquals(3, taken.aborted, "their room is given back");
  }

  @Test
  void whatIsNotKnownIsReadByTheReadersOfItsDirectory() throws Exception {
    indexBytes = 1; // only the last one is known
    serveAgain(256, 1 << 24);
    for (int map = 0; map < 2; ++map) write(map, 20, 40);
    fetch(0, 1);
    checkCame(0, 1);
    String reader = "ripc-shuffle-reader-";
    assertEquals(Set.of(reader + DirectoryReaders.UNKNOWN, reader + 0), readers);
  }

  private static void await(BooleanSupplier condition) {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    while (!condition.getAsBoolean() && System.nanoTime() < end) Thread.yield();
    assertTrue(condition.getAsBoolean());
  }

  @Test
  void whoIsTurnedAwayAsksAgain() throws Exception {
    serveAgain(1, 1 << 24);
    for (int map = 0; map < 4; ++map) write(map, 20, 40);
    CountDownLatch gate = new CountDownLatch(1);
    beforeFinding =
        () -> {
          try {
            gate.await();
          } catch (InterruptedException closing) {
            Thread.currentThread().interrupt();
          }
        };
    RemoteHost host = shuffle.host(name);
    List<RpcCall> calls = new ArrayList<>();
    for (int map = 0; map < 3; ++map) { // two run, one waits
      Wire.Sizes sizes =
          new Wire.Sizes(host.head(REDUCE), List.of(MapFiles.attempt(map).toString()));
      calls.add(host.call(Wire.SIZES, Wire.encode(sizes, KEY), new Outgoing()));
    }
    Thread opens =
        new Thread(
            () -> {
              await(() -> value(metrics.busy) > 0);
              gate.countDown();
            });
    opens.start();
    assertFalse(fetch(3));
    checkCame(3);
    opens.join();
    for (RpcCall call : calls) {
      try (CallResult result = RemoteHost.await(call)) {
        assertEquals(Wire.OK, result.code());
      }
    }
  }

  @Test
  void piecesUnderWayAreBoundedAndEnd() throws Exception {
    serveAgain(256, 64 << 10);
    write(0, 2000, 1000);
    RemoteHost host = shuffle.host(name);
    Wire.Range range = new Wire.Range(MapFiles.attempt(0).toString(), 0, (64 << 10) + 1);
    ByteBuffer request = Wire.encode(new Wire.Data(host.head(REDUCE), List.of(range)), KEY);
    try (RegisteredBuffer memory = shuffle.ripc().lease(range.length())) {
      Outgoing room = new Outgoing().attach(new ReturnBuffer(memory));
      try (CallResult result = RemoteHost.await(host.call(Wire.DATA, request, room))) {
        assertEquals(CallOutcome.DID_NOT_RUN, result.outcome());
        assertEquals(Status.AGAIN, result.status());
      }
    }
    assertEquals(1, value(metrics.busy));
    // Pieces of which one is under way, each with the room that the one before gives back.
    maps.conf.setInt(Keys.PIECE_BYTES, 64 << 10);
    shuffle.close();
    shuffle = new RemoteShuffle(maps.conf, JOB, KEY);
    fetch(0);
    checkCame(0);
  }

  /** Those are given back as well. */
  @Test
  void requestsThatCannotBeServedTakeNoRoom() throws Exception {
    serveAgain(256, 64 << 10);
    write(0, 2000, 1000);
    shuffle.host(name).sizes(REDUCE, List.of(MapFiles.attempt(0).toString()));
    byte[] bytes = Files.readAllBytes(maps.data(0));
    Files.write(maps.data(0), new byte[10]);
    maps.conf.setInt(Keys.PIECE_BYTES, 64 << 10);
    shuffle.close();
    shuffle = new RemoteShuffle(maps.conf, JOB, KEY);
    for (int time = 0; time < 3; ++time) assertThrows(ShuffleFailure.class, () -> fetch(0));
    Files.write(maps.data(0), bytes);
    fetch(0);
    checkCame(0);
  }

  @Test
  void aWrongTokenIsRefusedAndCounted() throws Exception {
    write(0, 20, 40);
    shuffle.close();
    shuffle = new RemoteShuffle(maps.conf, JOB, WRONG);
    ShuffleFailure failure = assertThrows(ShuffleFailure.class, () -> fetch(0));
    assertEquals(Fallback.REFUSED, failure.why());
    assertEquals(1, value(metrics.refused));
    assertEquals(0, value(metrics.bytes));
  }

  @Test
  void aReplayedRequestIsRefusedAndCounted() throws Exception {
    write(0, 20, 40);
    RemoteHost host = shuffle.host(name);
    Wire.Sizes sizes = new Wire.Sizes(host.head(REDUCE), List.of(MapFiles.attempt(0).toString()));
    ByteBuffer request = Wire.encode(sizes, KEY);
    for (int time = 0; time < 3; ++time) {
      try (CallResult result = RemoteHost.await(host.call(Wire.SIZES, request, new Outgoing()))) {
        assertEquals(time == 0 ? Wire.OK : Wire.NO_SESSION, result.code());
      }
    }
    assertEquals(2, value(metrics.replayed));
    assertEquals(1, value(metrics.sizeRequests));
  }

  @Test
  void aReplayedBeginIsRefusedAndCounted() throws Exception {
    RemoteHost host = shuffle.host(name);
    ByteBuffer request = Wire.encode(new Wire.Begin(JOB, new byte[Wire.NONCE_BYTES]), KEY);
    for (int time = 0; time < 3; ++time) {
      try (CallResult result = RemoteHost.await(host.call(Wire.BEGIN, request, new Outgoing()))) {
        assertEquals(time == 0 ? Wire.OK : Wire.NO_SESSION, result.code());
      }
    }
    assertEquals(2, value(metrics.replayed));
    assertEquals(1, value(metrics.sessions));
  }

  @Test
  void anotherJobsOutputIsRefused() throws Exception {
    write(0, 20, 40);
    RemoteHost host = shuffle.host(name);
    Wire.Sizes sizes =
        new Wire.Sizes(host.head(REDUCE), List.of("attempt_1700000000000_0002_m_000000_0"));
    try (CallResult result =
        RemoteHost.await(host.call(Wire.SIZES, Wire.encode(sizes, KEY), new Outgoing()))) {
      assertEquals(Wire.REFUSED, result.code());
    }
  }

  @Test
  void anEndedJobIsRefused() throws Exception {
    write(0, 20, 40);
    fetch(0);
    keys.clear();
    server.endJob(JOB);
    ShuffleFailure failure = assertThrows(ShuffleFailure.class, () -> fetch(0));
    assertEquals(Fallback.REFUSED, failure.why());
  }

  @Test
  void aRestartedNodeManagerIsAskedAgain() throws Exception {
    write(0, 20, 40);
    fetch(0);
    serveAgain(256, 1 << 24);
    taken.came.clear();
    fetch(0);
    checkCame(0);
  }

  @Test
  void withoutAServiceAnotherWayIsTaken() {
    RemoteHost host = shuffle.host("nowhere:1");
    ShuffleFailure failure = assertThrows(ShuffleFailure.class, host::way);
    assertEquals(Fallback.NO_SERVICE, failure.why());
    host.avoid(failure);
    // Not asked again for a while, which is why this does not wait.
    assertEquals(Fallback.NO_SERVICE, assertThrows(ShuffleFailure.class, host::way).why());
  }

  /** Whatever comes, the server goes on. */
  @Test
  void rubbishIsRefused() throws Exception {
    write(0, 20, 40);
    RemoteHost host = shuffle.host(name);
    Random random = new Random(1);
    ByteBuffer good =
        Wire.encode(
            new Wire.Sizes(host.head(REDUCE), List.of(MapFiles.attempt(0).toString())), KEY);
    for (int round = 0; round < 2000; ++round) {
      byte[] bytes =
          random.nextBoolean() ? good.array().clone() : new byte[random.nextInt(100_000)];
      if (bytes.length > 0) bytes[random.nextInt(bytes.length)] += 1;
      int method = 1 + random.nextInt(3);
      try (CallResult result =
          RemoteHost.await(host.call(method, ByteBuffer.wrap(bytes), new Outgoing()))) {
        assertTrue(result.isAnswered());
        assertTrue(result.code() == Wire.REFUSED || result.code() == Wire.NO_SESSION);
      }
    }
    fetch(0);
    checkCame(0);
  }
}
