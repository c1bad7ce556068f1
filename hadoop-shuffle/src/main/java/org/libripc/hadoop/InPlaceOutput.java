// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.task.reduce.MapHost;
import org.apache.hadoop.mapreduce.task.reduce.MapOutput;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleClientMetrics;

/** A map output that stays where it is, and stays open, until the merge reads it. */
final class InPlaceOutput<K, V> extends MapOutput<K, V> {
  private final RipcMergeManager<K, V> manager;
  private final LocalOutput output;

  InPlaceOutput(RipcMergeManager<K, V> manager, TaskAttemptID map, LocalOutput output) {
    super(map, output.raw(), true);
    this.manager = manager;
    this.output = output;
  }

  LocalOutput output() {
    return output;
  }

  @Override
  public void shuffle(
      MapHost host,
      InputStream input,
      long compressed,
      long raw,
      ShuffleClientMetrics metrics,
      Reporter reporter) {
    throw new UnsupportedOperationException("it stays where it is");
  }

  @Override
  public void commit() throws IOException {
    manager.commit(this);
  }

  @Override
  public void abort() {
    manager.release(this);
  }

  @Override
  public String getDescription() {
    return "IN PLACE";
  }
}
