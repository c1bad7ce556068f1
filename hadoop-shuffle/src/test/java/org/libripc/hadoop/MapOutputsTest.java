// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a NodeManager knows of map outputs. */
class MapOutputsTest {
  private static final String JOB = MapFiles.JOB.toString();
  @TempDir Path folder;
  private MapFiles maps;
  private MapOutputs outputs;

  @BeforeEach
  void begin() {
    Path application = folder.resolve("usercache/ada/appcache/application_1700000000000_0001");
    maps = new MapFiles(application);
    outputs = of(1 << 20);
  }

  private MapOutputs of(long indexBytes) {
    return new MapOutputs(
        relative -> {
          File file = folder.resolve(relative).toFile();
          if (!file.exists()) throw new IOException("no " + relative);
          return file;
        },
        maps.conf,
        indexBytes,
        4);
  }

  private static List<List<MapFiles.Pair>> partitions(int count) {
    List<List<MapFiles.Pair>> partitions = new ArrayList<>();
    Random random = new Random(count);
    for (int index = 0; index < count; ++index)
      partitions.add(MapFiles.records(random, index * 10, 50));
    return partitions;
  }

  @Test
  void theIndexSaysWhereAPartIs() throws IOException {
    maps.write(1, null, partitions(5));
    MapOutputs.Output output = outputs.find(JOB, "ada", MapFiles.attempt(1).toString());
    long start = 0;
    for (int reduce = 0; reduce < 5; ++reduce) {
      assertEquals(start, output.part(reduce).startOffset);
      start += output.part(reduce).partLength;
    }
    assertEquals(Files.size(maps.data(1)), start);
    assertNull(output.part(5));
    assertNull(output.part(-1));
    ByteBuffer all = ByteBuffer.allocate((int) start);
    outputs.read(output, 0, all);
    assertEquals(ByteBuffer.wrap(Files.readAllBytes(maps.data(1))), all.flip());
  }

  @Test
  void missingOrDamagedOutputsAreErrors() throws IOException {
    maps.write(1, null, partitions(2));
    assertThrows(IOException.class, () -> outputs.find(JOB, "ada", MapFiles.attempt(2).toString()));
    assertThrows(IOException.class, () -> outputs.find(JOB, "eve", MapFiles.attempt(1).toString()));
    Path index = Path.of(maps.data(1) + ".index");
    byte[] bytes = Files.readAllBytes(index);
    bytes[3] ^= 1;
    Files.write(index, bytes);
    assertThrows(IOException.class, () -> outputs.find(JOB, "ada", MapFiles.attempt(1).toString()));
  }

  @Test
  void indexesAndDescriptorsAreFew() throws IOException {
    MapOutputs small = of(5000);
    int most = 0;
    for (int map = 0; map < 100; ++map) {
      maps.write(map, null, partitions(4));
      MapOutputs.Output output = small.find(JOB, "ada", MapFiles.attempt(map).toString());
      small.read(output, 0, ByteBuffer.allocate(4));
      most = Math.max(most, small.count());
      assertTrue(small.openFiles() <= 4);
    }
    assertEquals(5000 / (400 + 24 * 4), most);
    assertNotNull(small.known(MapFiles.attempt(99).toString()));
    assertNull(small.known(MapFiles.attempt(0).toString()));
    small.find(JOB, "ada", MapFiles.attempt(0).toString());
  }

  @Test
  void nothingIsLeftOfAnEndedJob() throws IOException {
    maps.write(1, null, partitions(2));
    MapOutputs.Output output = outputs.find(JOB, "ada", MapFiles.attempt(1).toString());
    outputs.read(output, 0, ByteBuffer.allocate(4));
    outputs.endJob("job_1_1");
    assertEquals(1, outputs.count());
    outputs.endJob(JOB);
    assertEquals(0, outputs.count());
    assertEquals(0, outputs.openFiles());
  }

  @Test
  void noDescriptorOutlivesItsJob() throws IOException {
    MapOutputs small = of(500);
    maps.write(1, null, partitions(2));
    maps.write(2, null, partitions(2));
    MapOutputs.Output first = small.find(JOB, "ada", MapFiles.attempt(1).toString());
    small.find(JOB, "ada", MapFiles.attempt(2).toString());
    assertNull(small.known(MapFiles.attempt(1).toString()));
    // A request that was under way when its index was dropped.
    small.read(first, 0, ByteBuffer.allocate(4));
    assertEquals(1, small.openFiles());
    small.endJob(JOB);
    assertEquals(0, small.openFiles());
  }
}
