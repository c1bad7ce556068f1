// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.task.reduce.MapHost;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What counts as an output that has come. */
class CountingSchedulerTest {
  @TempDir Path folder;

  @Test
  void anOutputThatComesTwiceCountsOnce() throws Exception {
    Map<String, Long> counted = new ConcurrentHashMap<>();
    Reporter reporter = OneProcess.reporter(counted);
    CountingScheduler<BytesWritable, BytesWritable> scheduler =
        new CountingScheduler<>(
            MapFiles.context(
                new MapFiles(folder).conf,
                new org.apache.hadoop.mapred.TaskAttemptID(
                    "1700000000000", 1, TaskType.REDUCE, 0, 0),
                null,
                null,
                OneProcess.status(),
                null,
                reporter),
            problem -> {
              throw new AssertionError(problem);
            },
            new ShuffleCounters(reporter));
    MapHost host = new MapHost("host:1", "http://host:1/");
    TaskAttemptID map = MapFiles.attempt(0);
    for (int time = 0; time < 2; ++time)
      scheduler.copySucceeded(map, host, 7, 0, 1, new OutputInMemory<>(map, 7));
    scheduler.close();
    assertEquals(Map.of(ShufflePath.HTTP.counter(), 7L), counted);
  }
}
