// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import javax.crypto.SecretKey;
import javax.crypto.spec.SecretKeySpec;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.task.reduce.MapOutput;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.metrics2.lib.MutableCounterLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.libripc.Ripc;
import org.libripc.ServiceId;

/** A reducer's calls to a NodeManager, both in this process; in the RDMA lab over verbs. */
@Tag("verbs")
@Timeout(60)
abstract class ServerFixture {
  static final String JOB = MapFiles.JOB.toString();
  static final SecretKey KEY = new SecretKeySpec(new byte[] {1, 2, 3}, "HmacSHA1");
  static final SecretKey WRONG = new SecretKeySpec(new byte[] {1, 2, 4}, "HmacSHA1");
  static final int REDUCE = 1;

  @TempDir Path folder;
  final String name = "test-" + ProcessHandle.current().pid() + "-" + System.nanoTime();
  final Map<String, SecretKey> keys = new LinkedHashMap<>(Map.of(JOB, KEY));
  MapFiles maps;
  final Set<String> readers = ConcurrentHashMap.newKeySet();
  volatile Runnable beforeFinding = () -> {};
  volatile Runnable whileFinding = () -> {};
  long indexBytes = 1 << 20;
  HandlerMetrics metrics;
  MapOutputs outputs;
  ShuffleServer server;
  RemoteShuffle shuffle;

  @BeforeEach
  void begin() {
    maps = new MapFiles(folder.resolve("usercache/ada/appcache/application_1700000000000_0001"));
    DefaultMetricsSystem.setMiniClusterMode(true);
    metrics = DefaultMetricsSystem.instance().register(new HandlerMetrics());
    server = serve(256, 1 << 24);
    shuffle = new RemoteShuffle(maps.conf, JOB, KEY);
  }

  private ShuffleServer serve(int queue, int underWay) {
    outputs =
        new MapOutputs(
            relative -> {
              Path file = folder.resolve(relative);
              if (!Files.exists(file)) throw new IOException("no " + file);
              whileFinding.run();
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

  /** Starts another server in place of the one that runs. */
  void serveAgain(int queue, int underWay) throws Exception {
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

  /** Keeps the outputs that come. */
  static final class Taken implements RemoteFetch.Target<Object, Object> {
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
      return new OutputInMemory<>(map, size.raw()) {
        @Override
        public void abort() {
          ++aborted;
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

  final Taken taken = new Taken();

  boolean fetch(int... which) throws Exception {
    List<TaskAttemptID> wanted = new ArrayList<>();
    for (int map : which) wanted.add(MapFiles.attempt(map));
    return new RemoteFetch<>(shuffle, shuffle.host(name), REDUCE, taken).fetch(wanted);
  }

  void write(int map, int records, int longest) throws IOException {
    Random random = new Random(map);
    maps.write(
        map,
        null,
        List.of(
            MapFiles.records(random, 10, 100),
            MapFiles.records(random, records, longest),
            MapFiles.records(random, 10, 100)));
  }

  byte[] part(int map) throws IOException {
    LocalOutput part = new LocalOutputs(maps.conf, REDUCE).find(MapFiles.attempt(map));
    try (InputStream in = part.open(maps.conf)) {
      return in.readAllBytes();
    }
  }

  void checkCame(int... which) throws IOException {
    assertEquals(which.length, taken.came.size());
    for (int map : which) assertArrayEquals(part(map), taken.came.get(MapFiles.attempt(map)));
  }

  static long value(MutableCounterLong counter) {
    return counter.value();
  }

  static void await(BooleanSupplier condition) {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    while (!condition.getAsBoolean() && System.nanoTime() < end) Thread.yield();
    assertTrue(condition.getAsBoolean());
  }
}
