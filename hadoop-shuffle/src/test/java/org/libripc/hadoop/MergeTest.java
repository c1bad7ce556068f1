// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.UnixOperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.compress.BZip2Codec;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.DefaultCodec;
import org.apache.hadoop.io.compress.GzipCodec;
import org.apache.hadoop.io.compress.Lz4Codec;
import org.apache.hadoop.io.compress.SnappyCodec;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapred.ShuffleConsumerPlugin;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.task.reduce.MapHost;
import org.apache.hadoop.mapreduce.task.reduce.MapOutput;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleClientMetrics;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The merge in place gives the same as sorting all records. */
class MergeTest {
  private static final int REDUCE = 1;
  @TempDir Path folder;
  private MapFiles maps;
  private CompressionCodec codec;

  private MapFiles maps() {
    if (maps == null) maps = new MapFiles(folder);
    return maps;
  }

  private void codec(String name) {
    maps();
    if (name.equals("deflate")) codec = new DefaultCodec();
    if (name.equals("bzip2")) codec = new BZip2Codec();
    if (codec instanceof DefaultCodec deflate) deflate.setConf(maps.conf);
    if (codec instanceof BZip2Codec bzip2) bzip2.setConf(maps.conf);
  }

  private RipcMergeManager<BytesWritable, BytesWritable> manager() throws IOException {
    ShuffleConsumerPlugin.Context<BytesWritable, BytesWritable> context =
        MapFiles.context(
            maps.conf,
            new org.apache.hadoop.mapred.TaskAttemptID(
                "1700000000000", 1, TaskType.REDUCE, REDUCE, 0),
            codec,
            null,
            null,
            null,
            Reporter.NULL);
    return new RipcMergeManager<>(
        context,
        problem -> {
          throw new AssertionError(problem);
        },
        new ShuffleCounters(Reporter.NULL));
  }

  @ParameterizedTest
  @CsvSource({
    "1, none, 40",
    "2, none, 5000",
    "3, none, 100000",
    "4, deflate, 40",
    "5, deflate, 100000",
    "6, bzip2, 400"
  })
  void aMergeGivesAllRecordsSorted(long seed, String compression, int longest) throws Throwable {
    codec(compression);
    Random random = new Random(seed);
    List<MapFiles.Pair> expected = new ArrayList<>();
    // With the smallest windows, records go over their ends.
    maps.conf.setLong(Keys.IN_PLACE_BYTES, 12 * (CodecMemory.of(codec, maps.conf) + (16 << 10)));
    RipcMergeManager<BytesWritable, BytesWritable> manager = manager();
    LocalOutputs local = new LocalOutputs(maps.conf, REDUCE);
    for (int map = 0; map < 12; ++map) {
      List<MapFiles.Pair> mine =
          MapFiles.records(random, map == 3 ? 0 : random.nextInt(400), longest);
      List<MapFiles.Pair> others = MapFiles.records(random, 20, 40);
      maps.write(map, codec, List.of(others, mine, others));
      LocalOutput found = local.find(MapFiles.attempt(map));
      found.check(maps.conf, new byte[1000]);
      InPlaceOutput<BytesWritable, BytesWritable> output =
          manager.reserveInPlace(MapFiles.attempt(map), found);
      output.commit();
      expected.addAll(mine);
    }
    MapFiles.check(expected, manager.close());
  }

  @ParameterizedTest
  @ValueSource(longs = {7, 8})
  void inPlaceOutputsMergeWithHadoops(long seed) throws Throwable {
    codec("none");
    Random random = new Random(seed);
    // Room for the windows of about half of them.
    maps.conf.setLong(Keys.IN_PLACE_BYTES, 5 * (16 << 10) + 100);
    maps.conf.setLong("mapreduce.reduce.memory.totalbytes", 400_000);
    RipcMergeManager<BytesWritable, BytesWritable> manager = manager();
    LocalOutputs local = new LocalOutputs(maps.conf, REDUCE);
    List<MapFiles.Pair> expected = new ArrayList<>();
    int inPlace = 0;
    for (int map = 0; map < 10; ++map) {
      List<MapFiles.Pair> mine = MapFiles.records(random, 500, 100);
      maps.write(map, null, List.of(List.of(), mine));
      expected.addAll(mine);
      LocalOutput found = local.find(MapFiles.attempt(map));
      if (take(manager, map, found)) ++inPlace;
    }
    assertEquals(5, inPlace);
    MapFiles.check(expected, manager.close());
  }

  /** Returns whether it stays in place; if not, Hadoop's merge has a copy. */
  private boolean take(
      RipcMergeManager<BytesWritable, BytesWritable> manager, int map, LocalOutput found)
      throws IOException, InterruptedException {
    MapOutput<BytesWritable, BytesWritable> output =
        manager.reserveInPlace(MapFiles.attempt(map), found);
    boolean inPlace = output != null;
    if (!inPlace) {
      output = reserve(manager, map, found.raw());
      output.shuffle(
          new MapHost("node1:1", "http://node1:1/"),
          found.open(maps.conf),
          found.length(),
          found.raw(),
          ShuffleClientMetrics.create(
              new org.apache.hadoop.mapred.TaskAttemptID("1", 1, TaskType.REDUCE, map, 0),
              maps.conf),
          Reporter.NULL);
    }
    output.commit();
    return inPlace;
  }

  /** Like Hadoop's shuffle, which has copies of all outputs: those that stay in place are open. */
  @Test
  void outputsThatAreDeletedAfterTheyWereTakenAreMerged() throws Throwable {
    codec("none");
    maps.conf.setInt(Keys.REDUCER_FILES, 4);
    RipcMergeManager<BytesWritable, BytesWritable> manager = manager();
    LocalOutputs local = new LocalOutputs(maps.conf, REDUCE);
    List<MapFiles.Pair> expected = new ArrayList<>();
    List<LocalOutput> inPlace = new ArrayList<>();
    for (int map = 0; map < 10; ++map) {
      List<MapFiles.Pair> mine = MapFiles.records(new Random(map), 500, 100);
      maps.write(map, null, List.of(List.of(), mine));
      expected.addAll(mine);
      LocalOutput found = local.find(MapFiles.attempt(map));
      found.check(maps.conf, new byte[1000]);
      if (take(manager, map, found)) inPlace.add(found);
      Files.delete(maps.data(map));
    }
    MapFiles.check(expected, manager.close());
    assertEquals(4, inPlace.size(), "as many as may be open");
    for (LocalOutput each : inPlace) assertFalse(each.channel().isOpen(), "it has been merged");
  }

  /** Even if the configuration gives it all of them: others could not open anything then. */
  @Test
  void aReducerLeavesDescriptorsToOthers() {
    maps().conf.setInt(Keys.REDUCER_FILES, Integer.MAX_VALUE);
    int most = Keys.reducerFiles(maps.conf);
    long processes =
        ManagementFactory.getPlatformMXBean(UnixOperatingSystemMXBean.class)
            .getMaxFileDescriptorCount();
    assertTrue(most >= 1 && most <= processes / 4, most + " of " + processes);
  }

  @Test
  void aMergeNotReadToItsEndLeavesNoFileOpen() throws Throwable {
    codec("none");
    RipcMergeManager<BytesWritable, BytesWritable> manager = manager();
    List<LocalOutput> taken = new ArrayList<>();
    for (int map = 0; map < 3; ++map) {
      maps.write(map, null, List.of(List.of(), MapFiles.records(new Random(map), 50, 100)));
      taken.add(new LocalOutputs(maps.conf, REDUCE).find(MapFiles.attempt(map)));
      manager.reserveInPlace(MapFiles.attempt(map), taken.get(map)).commit();
    }
    assertTrue(manager.close().next());
    for (LocalOutput each : taken) assertTrue(each.channel().isOpen());
    manager.closeFiles();
    for (LocalOutput each : taken) assertFalse(each.channel().isOpen());
  }

  private static MapOutput<BytesWritable, BytesWritable> reserve(
      RipcMergeManager<BytesWritable, BytesWritable> manager, int map, long raw)
      throws IOException, InterruptedException {
    MapOutput<BytesWritable, BytesWritable> output = null;
    while (output == null) {
      manager.waitForResource();
      output = manager.reserve(MapFiles.attempt(map), raw, 1);
    }
    return output;
  }

  @Test
  void theConfigurationMayLeaveTheMergeToHadoop() throws Throwable {
    codec("none");
    maps.conf.setBoolean(Keys.IN_PLACE, false);
    maps.write(0, null, List.of(List.of(), List.of()));
    LocalOutput found = new LocalOutputs(maps.conf, REDUCE).find(MapFiles.attempt(0));
    RipcMergeManager<BytesWritable, BytesWritable> manager = manager();
    assertNull(manager.reserveInPlace(MapFiles.attempt(0), found));
    MapFiles.check(new ArrayList<>(), manager.close());
  }

  private int inPlace(CompressionCodec of, long budget) throws Throwable {
    codec = of;
    maps.conf.setLong(Keys.IN_PLACE_BYTES, budget);
    maps.write(0, null, List.of(List.of(), List.of()));
    LocalOutput found = new LocalOutputs(maps.conf, REDUCE).find(MapFiles.attempt(0));
    RipcMergeManager<BytesWritable, BytesWritable> manager = manager();
    int count = 0;
    while (count < 1000 && manager.reserveInPlace(MapFiles.attempt(0), found) != null) ++count;
    manager.close();
    return count;
  }

  /** Of 10 MB; the windows of empty outputs take next to nothing. */
  @Test
  void memoryForDecompressionIsReserved() throws Throwable {
    maps();
    assertEquals(1000, inPlace(null, 10_000_000));
    assertEquals(2, inPlace(new BZip2Codec(), 10_000_000));
    assertEquals(49, inPlace(new GzipCodec(), 10_000_000));
    assertEquals(12, inPlace(new SnappyCodec(), 10_000_000));
    maps.conf.setInt("io.compression.codec.lz4.buffersize", 1 << 20);
    assertEquals(3, inPlace(new Lz4Codec(), 10_000_000));
    maps.conf.setBoolean("mapreduce.job.encrypted-intermediate-data", true);
    maps.conf.setInt("mapreduce.job.encrypted-intermediate-data.buffer.kb", 1 << 10);
    assertEquals(1, inPlace(new Lz4Codec(), 10_000_000));
  }

  @Test
  void outputsOfAnUnknownCodecAreLeftToHadoop() throws Throwable {
    maps();
    assertEquals(0, inPlace(new DefaultCodec() {}, Long.MAX_VALUE));
  }

  @Test
  void roomThatIsGivenBackIsRoom() throws Throwable {
    codec("none");
    maps.conf.setLong(Keys.IN_PLACE_BYTES, 16 << 10);
    maps.conf.setInt(Keys.REDUCER_FILES, 1);
    maps.write(0, null, List.of(List.of(), MapFiles.records(new Random(1), 1000, 40)));
    LocalOutput found = new LocalOutputs(maps.conf, REDUCE).find(MapFiles.attempt(0));
    RipcMergeManager<BytesWritable, BytesWritable> manager = manager();
    for (int round = 0; round < 10; ++round) {
      InPlaceOutput<BytesWritable, BytesWritable> output =
          manager.reserveInPlace(MapFiles.attempt(0), found);
      assertNotNull(output);
      assertNull(manager.reserveInPlace(MapFiles.attempt(0), found));
      output.abort();
    }
    manager.close();
  }

  /** The checksum covers each byte, both times that it is read. */
  @ParameterizedTest
  @ValueSource(strings = {"none", "deflate"})
  void aDamagedByteIsFound(String compression) throws Throwable {
    codec(compression);
    List<MapFiles.Pair> mine = MapFiles.records(new Random(1), 20, 30);
    maps.write(0, codec, List.of(List.of(), mine));
    LocalOutputs local = new LocalOutputs(maps.conf, REDUCE);
    LocalOutput found = local.find(MapFiles.attempt(0));
    byte[] bytes = Files.readAllBytes(maps.data(0));
    for (long at = found.start(); at < found.start() + found.length(); ++at) {
      byte[] damaged = bytes.clone();
      damaged[(int) at] ^= 0x10;
      Files.write(maps.data(0), damaged, StandardOpenOption.WRITE);
      assertThrows(IOException.class, () -> found.check(maps.conf, new byte[50]), "byte " + at);
      RipcMergeManager<BytesWritable, BytesWritable> manager = manager();
      manager.reserveInPlace(MapFiles.attempt(0), found).commit();
      assertThrows(
          IOException.class,
          () -> {
            RawKeyValueIterator merged = manager.close();
            while (merged.next()) {
              // until it is found
            }
          },
          "byte " + at);
    }
  }

  @Test
  void aFileThatIsTooShortIsFound() throws Throwable {
    codec("none");
    maps.write(0, null, List.of(List.of(), MapFiles.records(new Random(1), 20, 30)));
    LocalOutput found = new LocalOutputs(maps.conf, REDUCE).find(MapFiles.attempt(0));
    byte[] bytes = Files.readAllBytes(maps.data(0));
    Files.write(maps.data(0), Arrays.copyOf(bytes, bytes.length - 7));
    assertThrows(IOException.class, () -> found.check(maps.conf, new byte[50]));
  }

  @Test
  void anOutputOfAnotherHostIsNotFound() throws Throwable {
    codec("none");
    assertNull(new LocalOutputs(maps.conf, REDUCE).find(MapFiles.attempt(0)));
    maps.write(0, null, List.of(List.of()));
    assertThrows(
        IOException.class,
        () -> new LocalOutputs(maps.conf, REDUCE).find(MapFiles.attempt(0)),
        "it has no such part");
  }
}
