// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.InputStream;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.task.reduce.MapHost;
import org.apache.hadoop.mapreduce.task.reduce.MapOutput;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleClientMetrics;

/** An output of a map that has come, and that nobody merges. */
class OutputInMemory<K, V> extends MapOutput<K, V> {
  OutputInMemory(TaskAttemptID map, long size) {
    super(map, size, true);
  }

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
  public void abort() {}

  @Override
  public String getDescription() {
    return "test";
  }
}
