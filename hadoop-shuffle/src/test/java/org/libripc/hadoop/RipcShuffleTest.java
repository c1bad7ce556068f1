// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What the plugin and the handler do together, and the job's counters for that. Tests with the tag
 * {@code verbs} cross hosts; {@code RIPC_TRANSPORTS} then names the transport.
 */
@Timeout(120)
class RipcShuffleTest {
  private static final int OUTPUTS = 6;
  private static final List<MapFiles.Pair> WRITTEN = new ArrayList<>();

  @TempDir static Path folder;
  private static OneProcess process;

  @BeforeAll
  static void begin() throws Exception {
    Random random = new Random(1);
    process = new OneProcess(folder, OUTPUTS, map -> records(random, map));
  }

  /** The records of two outputs that need several pieces, one that is empty, and small ones. */
  private static List<MapFiles.Pair> records(Random random, int map) {
    List<MapFiles.Pair> records =
        map < 2
            ? MapFiles.records(random, 1200, 10_000)
            : MapFiles.records(random, map == 2 ? 0 : 100, 200);
    WRITTEN.addAll(records);
    return records;
  }

  @AfterAll
  static void end() {
    process.close();
  }

  private long bytes() throws IOException {
    long bytes = 0;
    for (int map = 0; map < OUTPUTS; ++map) {
      try (LocalOutput output =
          new LocalOutputs(process.files.conf, 0).find(MapFiles.attempt(map))) {
        bytes += output.length();
      }
    }
    return bytes;
  }

  /** Returns the counters; the records have been compared. */
  private Map<String, Long> reduce(Map<String, String> settings) throws Exception {
    return process
        .reduce(new RipcShuffle<>(), settings, merged -> MapFiles.check(WRITTEN, merged))
        .counters();
  }

  @Tag("verbs")
  @ParameterizedTest
  @ValueSource(ints = {1 << 20, Keys.LARGEST_PIECE})
  void everyByteIsCountedForTheTransportThatBroughtIt(int piece) throws Exception {
    String transport = System.getenv().getOrDefault("RIPC_TRANSPORTS", "shm");
    Map<String, String> settings = Map.of(Keys.LOCAL, "false", Keys.PIECE_BYTES, "" + piece);
    String counter = ShufflePath.of(transport).counter();
    assertEquals(Map.of(counter, bytes()), reduce(settings));
  }

  @Test
  void filesOfTheHostAreMergedInPlace() throws Exception {
    Map<String, Long> expected = Map.of("LOCAL_BYTES", bytes(), "IN_PLACE_BYTES", bytes());
    assertEquals(expected, reduce(Map.of()));
  }

  /** Interrupts a reducer at every moment; it has all outputs but one, which never comes. */
  private void interrupt(String local) throws Exception {
    Map<String, String> settings =
        Map.of(Keys.LOCAL, local, "mapreduce.job.maps", "" + (OUTPUTS + 1));
    process.counters = Map.of();
    FutureTask<Map<String, Long>> task = new FutureTask<>(() -> reduce(settings));
    Thread reducer = new Thread(task);
    reducer.start();
    long bytes = bytes();
    while (process.counters.values().stream().noneMatch(come -> come == bytes)) Thread.sleep(1);
    while (reducer.isAlive()) reducer.interrupt();
    ExecutionException thrown = assertThrows(ExecutionException.class, task::get);
    assertInstanceOf(InterruptedException.class, thrown.getCause());
  }

  /** Hadoop closes a shuffle only after its end. */
  @Test
  void anInterruptedReducerClosesItsFiles() throws Exception {
    long before = openOutputs();
    interrupt("true");
    assertTrue(openOutputs() <= before);
  }

  private static long openOutputs() throws IOException {
    try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"))) {
      return descriptors.filter(each -> target(each).endsWith("file.out")).count();
    }
  }

  private static Path target(Path descriptor) {
    try {
      return Files.readSymbolicLink(descriptor);
    } catch (IOException closed) {
      return descriptor;
    }
  }

  @Test
  void anInterruptedReducerEndsItsThreads() throws Exception {
    interrupt("false");
    while (threadsIn(RemoteShuffle.class) + threadsIn(MapEvents.class) != 0) Thread.sleep(1);
  }

  private static long threadsIn(Class<?> type) {
    return Thread.getAllStackTraces().values().stream()
        .filter(
            frames ->
                Arrays.stream(frames)
                    .anyMatch(frame -> frame.getClassName().equals(type.getName())))
        .count();
  }

  @Test
  void httpBringsAllWithBothOff() throws Exception {
    Map<String, String> settings = Map.of(Keys.LOCAL, "false", Keys.REMOTE, "false");
    assertEquals(Map.of("HTTP_BYTES", bytes()), reduce(settings));
  }
}
