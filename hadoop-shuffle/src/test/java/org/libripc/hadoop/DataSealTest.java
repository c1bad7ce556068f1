// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;

class DataSealTest {
  private static Set<ShufflePath> covered(String wanted, Map<String, String> environment) {
    Configuration conf = new Configuration(false);
    if (wanted != null) conf.set(Keys.DATA_MAC, wanted);
    DataSeal seal = DataSeal.of(conf, environment);
    Set<ShufflePath> paths = EnumSet.of(ShufflePath.SHM, ShufflePath.SOCKET, ShufflePath.RDMA);
    paths.removeIf(path -> !seal.covers(path));
    return paths;
  }

  @Test
  void coversWhatNothingElseProtects() {
    Map<String, String> open = Map.of("RIPC_NETWORK", "open");
    assertEquals(EnumSet.of(ShufflePath.RDMA), covered(null, Map.of()));
    assertEquals(EnumSet.of(ShufflePath.SOCKET, ShufflePath.RDMA), covered(null, open));
    assertEquals(EnumSet.of(ShufflePath.SOCKET, ShufflePath.RDMA), covered("auto", open));
  }

  @Test
  void coversWhatTheJobSays() {
    assertTrue(covered("never", Map.of("RIPC_NETWORK", "open")).isEmpty());
    assertEquals(3, covered(" Always ", Map.of()).size());
    assertThrows(IllegalArgumentException.class, () -> covered("yes", Map.of()));
  }
}
