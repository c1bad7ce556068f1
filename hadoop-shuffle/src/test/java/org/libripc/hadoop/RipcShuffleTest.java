// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What the plugin and the handler do together, and the job's counters of it. With the tag {@code
 * verbs}: what crosses hosts. Then {@code RIPC_TRANSPORTS} says over what.
 */
@Timeout(120)
class RipcShuffleTest {
  private static final int OUTPUTS = 12;

  @TempDir Path folder;
  private final List<MapFiles.Pair> written = new ArrayList<>();
  private OneProcess process;

  @BeforeEach
  void begin() throws Exception {
    Random random = new Random(1);
    process =
        new OneProcess(
            folder,
            OUTPUTS,
            map -> {
              // Three of some megabytes, one that is empty, and small ones.
              int count = map < 3 ? 12_000 : map == 3 ? 0 : 100;
              List<MapFiles.Pair> records = MapFiles.records(random, count, 1000);
              written.addAll(records);
              return records;
            });
  }

  @AfterEach
  void end() {
    process.close();
  }

  private long bytes() throws IOException {
    long bytes = 0;
    for (int map = 0; map < OUTPUTS; ++map)
      bytes += new LocalOutputs(process.files.conf, 0).find(MapFiles.attempt(map)).length();
    return bytes;
  }

  /** Returns the counters; the records have been compared. */
  private Map<String, Long> reduce(Map<String, String> settings) throws Exception {
    return process
        .reduce(new RipcShuffle<>(), settings, merged -> MapFiles.check(written, merged))
        .counters();
  }

  @Tag("verbs")
  @ParameterizedTest
  @ValueSource(ints = {Keys.SMALLEST_PIECE, 1 << 20, Keys.LARGEST_PIECE})
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

  @Test
  void withBothOffHttpBringsAll() throws Exception {
    Map<String, String> settings = Map.of(Keys.LOCAL, "false", Keys.REMOTE, "false");
    assertEquals(Map.of("HTTP_BYTES", bytes()), reduce(settings));
  }
}
