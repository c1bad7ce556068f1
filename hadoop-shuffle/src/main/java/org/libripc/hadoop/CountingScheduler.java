// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.util.List;
import org.apache.hadoop.mapred.Counters;
import org.apache.hadoop.mapred.ShuffleConsumerPlugin;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.task.reduce.ExceptionReporter;
import org.apache.hadoop.mapreduce.task.reduce.MapHost;
import org.apache.hadoop.mapreduce.task.reduce.MapOutput;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleSchedulerImpl;

/**
 * Hadoop's scheduler, which counts the bytes of each path. In a fetcher's visit, HTTP gets only the
 * outputs that the visit leaves to it, and none that became known since.
 */
final class CountingScheduler<K, V> extends ShuffleSchedulerImpl<K, V> {
  private final Counters.Counter all;
  private final ShuffleCounters counters;

  CountingScheduler(
      ShuffleConsumerPlugin.Context<K, V> context,
      ExceptionReporter exceptions,
      ShuffleCounters counters) {
    super(
        context.getJobConf(),
        context.getStatus(),
        context.getReduceId(),
        exceptions,
        context.getCopyPhase(),
        context.getShuffledMapsCounter(),
        context.getReduceShuffleBytes(),
        context.getFailedShuffleCounter());
    all = context.getReduceShuffleBytes();
    this.counters = counters;
  }

  @Override
  public List<TaskAttemptID> getMapsForHost(MapHost host) {
    List<TaskAttemptID> left =
        Thread.currentThread() instanceof RipcFetcher<?, ?> fetcher ? fetcher.forHttp() : null;
    return left != null ? left : super.getMapsForHost(host);
  }

  @Override
  public synchronized void copySucceeded(
      TaskAttemptID map, MapHost host, long bytes, long start, long end, MapOutput<K, V> output)
      throws IOException {
    // Hadoop throws away an output that it has already, and does not count it either.
    long before = all.getCounter();
    super.copySucceeded(map, host, bytes, start, end, output);
    if (all.getCounter() == before) return;
    // Hadoop, too, calls this in the thread of a fetcher.
    ShufflePath path =
        Thread.currentThread() instanceof RipcFetcher<?, ?> fetcher
            ? fetcher.path()
            : ShufflePath.HTTP;
    counters.came(path, bytes);
  }
}
