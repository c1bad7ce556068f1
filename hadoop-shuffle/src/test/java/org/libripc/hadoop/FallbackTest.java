// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.util.Progressable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** An output that one path does not give comes over the next; it counts once with its reason. */
@Timeout(120)
class FallbackTest {
  private static final int OUTPUTS = 60; // Hadoop's shuffle takes 20 at once
  private static final int UNREADABLE = 7;
  private static final int DAMAGED = 30;

  @TempDir Path folder;
  private OneProcess process;

  @BeforeEach
  void begin() throws Exception {
    process = process(folder);
  }

  private static OneProcess process(Path folder) throws Exception {
    Random random = new Random(1);
    return new OneProcess(folder, OUTPUTS, map -> MapFiles.records(random, 50, 100));
  }

  @AfterEach
  void end() {
    process.close();
  }

  private static Map<String, Long> reduce(OneProcess process, Map<String, String> settings)
      throws Exception {
    process.reduce(
        new RipcShuffle<>(),
        settings,
        merged -> {
          int records = 0;
          while (merged.next()) ++records;
          assertEquals(OUTPUTS * 50, records);
        });
    return new TreeMap<>(process.counters);
  }

  private static long bytes(OneProcess process, int map) throws IOException {
    return new LocalOutputs(process.files.conf, 0).find(MapFiles.attempt(map)).length();
  }

  private static long allBytes(OneProcess process) throws IOException {
    long bytes = 0;
    for (int map = 0; map < OUTPUTS; ++map) bytes += bytes(process, map);
    return bytes;
  }

  @Test
  void eachOutputCountsOnceIfLibripcDoesNotStart() throws Exception {
    Map<String, Long> expected =
        Map.of("HTTP_BYTES", allBytes(process), "FALLBACK_NO_SERVICE", (long) OUTPUTS);
    assertEquals(expected, reduce(process, Map.of(Keys.LOCAL, "false", Keys.PEERS, "nobody")));
  }

  /** A JVM whose native library does not load prints expected and real counters. */
  static final class WithoutLibrary {
    private WithoutLibrary() {}

    public static void main(String[] words) {
      int code = 1;
      try {
        OneProcess process = process(Path.of(words[0]));
        System.out.println(
            new TreeMap<>(
                Map.of("HTTP_BYTES", allBytes(process), "FALLBACK_NO_SERVICE", (long) OUTPUTS)));
        System.out.println(reduce(process, Map.of(Keys.LOCAL, "false")));
        code = 0;
      } catch (Exception problem) {
        problem.printStackTrace();
      } finally {
        System.exit(code); // Hadoop's threads go on
      }
    }
  }

  @Test
  void httpBringsAllWithoutTheNativeLibrary(@TempDir Path other) throws Exception {
    Process java =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Dorg.libripc.library.path=" + other.resolve("nothing"),
                "-cp",
                System.getProperty(
                    "surefire.test.class.path", System.getProperty("java.class.path")),
                WithoutLibrary.class.getName(),
                other.toString())
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    String said = new String(java.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, java.waitFor(), said);
    List<String> lines = said.lines().toList();
    assertEquals(2, lines.size(), said);
    assertEquals(lines.get(0), lines.get(1));
  }

  @Test
  void anOutputThatTheHandlerCannotReadHoldsUpNoOther() throws Exception {
    process.unreadable.add(MapFiles.attempt(UNREADABLE).toString());
    long one = bytes(process, UNREADABLE);
    Map<String, Long> expected =
        Map.of("SHM_BYTES", allBytes(process) - one, "HTTP_BYTES", one, "FALLBACK_NOT_THERE", 1L);
    assertEquals(expected, reduce(process, Map.of(Keys.LOCAL, "false")));
  }

  /** The reducer's view of the outputs: one is a directory in place of a file, one is damaged. */
  private Path copy() throws IOException {
    Path copy = folder.resolve("copy");
    for (int map = 0; map < OUTPUTS; ++map) {
      Path data = process.files.data(map);
      Path to = copy.resolve("output/" + data.getParent().getFileName());
      Files.createDirectories(to);
      byte[] bytes = Files.readAllBytes(data);
      if (map == DAMAGED) bytes[bytes.length / 2] ^= 1;
      if (map == UNREADABLE) {
        Files.createDirectory(to.resolve("file.out"));
      } else {
        Files.write(to.resolve("file.out"), bytes);
      }
      Files.copy(Path.of(data + ".index"), to.resolve("file.out.index"));
    }
    return copy;
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void theHandlerSendsOutputsThatTheTaskCannotRead(boolean inPlace) throws Exception {
    Map<String, String> settings =
        Map.of(
            "mapreduce.cluster.local.dir",
            copy().toString(),
            Keys.IN_PLACE,
            Boolean.toString(inPlace));
    long sent = bytes(process, UNREADABLE);
    long overHttp = bytes(process, DAMAGED);
    long local = allBytes(process) - sent - overHttp;
    Map<String, Long> expected = new TreeMap<>();
    expected.put("LOCAL_BYTES", local);
    if (inPlace) expected.put("IN_PLACE_BYTES", local);
    expected.put("SHM_BYTES", sent);
    expected.put("FALLBACK_LOCAL_FILE", 1L);
    expected.put("HTTP_BYTES", overHttp);
    expected.put("FALLBACK_CHECKSUM", 1L);
    assertEquals(expected, reduce(process, settings));
  }

  /** A file system without room for files that are written. */
  public static final class FullDisk extends LocalFileSystem {
    /** Made by Hadoop. */
    public FullDisk() {
      super(new FullFiles());
    }
  }

  private static final class FullFiles extends RawLocalFileSystem {
    @Override
    public FSDataOutputStream create(
        org.apache.hadoop.fs.Path file,
        boolean overwrite,
        int buffer,
        short replication,
        long block,
        Progressable progress)
        throws IOException {
      OutputStream full =
          new OutputStream() {
            @Override
            public void write(int single) throws IOException {
              throw new IOException("No space left on device");
            }
          };
      return new FSDataOutputStream(full, null);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {Keys.IN_PLACE, Keys.LOCAL})
  void theReducersFullDiskIsNoFallback(String off) throws Exception {
    Map<String, String> settings =
        Map.of(
            off,
            "false",
            "fs.file.impl",
            FullDisk.class.getName(),
            "fs.file.impl.disable.cache",
            "true",
            "mapreduce.reduce.shuffle.memory.limit.percent",
            "0.000001"); // all outputs go to the disk
    IOException failure = assertThrows(IOException.class, () -> reduce(process, settings));
    assertInstanceOf(ReducerFailure.class, failure.getCause());
    assertEquals(Map.of(), process.counters);
  }
}
