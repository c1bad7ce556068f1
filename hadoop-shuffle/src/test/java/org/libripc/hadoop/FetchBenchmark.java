// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.mapreduce.task.reduce.Shuffle;

/**
 * How long a reducer takes to get many small outputs: Hadoop's shuffle and libripc's take turns.
 * {@code scripts/bench-hadoop --outputs} runs it.
 */
final class FetchBenchmark {
  private static final String STOCK = "stock";
  private static final String FILES = "ripc, files"; // the reducer reads them
  private static final String SENT = "ripc, sent"; // the handler sends them
  private static final int RECORDS = 100; // of 100 bytes each, in an output

  private FetchBenchmark() {}

  private static long fetch(OneProcess process, String way, int outputs) throws Exception {
    AtomicInteger records = new AtomicInteger();
    long took =
        process
            .reduce(
                way.equals(STOCK) ? new Shuffle<>() : new RipcShuffle<>(),
                Map.of(Keys.LOCAL, Boolean.toString(!way.equals(SENT))),
                merged -> {
                  while (merged.next()) records.incrementAndGet();
                })
            .millis();
    if (records.get() != outputs * RECORDS) throw new IOException(records + " records have come");
    return took;
  }

  /** Arguments: a folder, the number of outputs and of rounds. Prints the times of each way. */
  public static void main(String[] words) throws Exception {
    int outputs = Integer.parseInt(words[1]);
    int rounds = Integer.parseInt(words[2]);
    Random random = new Random(1);
    OneProcess process =
        new OneProcess(Path.of(words[0]), outputs, map -> MapFiles.records(random, RECORDS, 190));
    Map<String, long[]> times = new LinkedHashMap<>();
    for (String way : List.of(STOCK, FILES, SENT)) times.put(way, new long[rounds]);
    for (int round = -1; round < rounds; ++round) { // the first one does not count
      for (String way : times.keySet()) {
        long took = fetch(process, way, outputs);
        if (round >= 0) times.get(way)[round] = took;
      }
    }
    times.forEach((way, each) -> System.out.println(way + ": " + Arrays.toString(each)));
    System.exit(0); // Hadoop's threads go on
  }
}
