// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapred.ShuffleConsumerPlugin;
import org.apache.hadoop.mapred.TaskAttemptID;
import org.apache.hadoop.mapred.TaskStatus;
import org.apache.hadoop.mapreduce.MRConfig;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.task.reduce.ExceptionReporter;
import org.apache.hadoop.mapreduce.task.reduce.Shuffle;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleClientMetrics;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A reducer's shuffle over libripc: set as {@code
 * mapreduce.job.reduce.shuffle.consumer.plugin.class}. Scheduling, memory and reports to the master
 * are Hadoop's own. The local job runner is left to Hadoop's {@link Shuffle}.
 *
 * @param <K> the maps' output keys
 * @param <V> the maps' output values
 */
public class RipcShuffle<K, V> implements ShuffleConsumerPlugin<K, V>, ExceptionReporter {
  private static final Logger LOG = LoggerFactory.getLogger(RipcShuffle.class);
  private static final int PROGRESS = 2000; // ms

  private Context<K, V> context;
  private Shuffle<K, V> localRunner; // null: this is not a local job
  private RipcFetcher.Shared<K, V> shared;
  private ShuffleClientMetrics metrics;
  // Guarded by this.
  private Throwable failure;
  private String failed;

  /** Made by the reduce task. */
  public RipcShuffle() {}

  @Override
  public void init(Context<K, V> newContext) {
    context = newContext;
    if (context.getLocalMapFiles() != null) {
      localRunner = new Shuffle<>();
      localRunner.init(context);
      return;
    }
    JobConf conf = context.getJobConf();
    ShuffleCounters counters = new ShuffleCounters(context.getReporter());
    CountingScheduler<K, V> scheduler = new CountingScheduler<>(context, this, counters);
    metrics = ShuffleClientMetrics.create(context.getReduceId(), conf);
    shared =
        new RipcFetcher.Shared<>(
            scheduler,
            new RipcMergeManager<>(context, this, counters),
            new LocalOutputs(conf, context.getReduceId().getTaskID().getId()),
            remote(conf),
            counters,
            ConcurrentHashMap.newKeySet());
  }

  /** Null if nothing is fetched over libripc. */
  private RemoteShuffle remote(JobConf conf) {
    if (!conf.getBoolean(Keys.REMOTE, true)) {
      LOG.info("Nothing is fetched over libripc ({})", Keys.REMOTE);
      return null;
    }
    if (conf.getBoolean(MRConfig.SHUFFLE_SSL_ENABLED_KEY, MRConfig.SHUFFLE_SSL_ENABLED_DEFAULT)) {
      LOG.info("Nothing is fetched over libripc, as the shuffle is to be encrypted");
      return null;
    }
    return new RemoteShuffle(
        conf,
        context.getReduceId().getJobID().toString(),
        context.getReduceTask().getShuffleSecret());
  }

  @Override
  public RawKeyValueIterator run() throws IOException, InterruptedException {
    if (localRunner != null) return localRunner.run();
    try {
      fetch();
      return merge();
    } catch (Throwable problem) {
      shared.merger().closeFiles(); // Hadoop does not call close() then
      throw problem;
    }
  }

  private void fetch() throws IOException, InterruptedException {
    Thread events = startEvents();
    List<RipcFetcher<K, V>> fetchers = new ArrayList<>();
    try {
      int count = context.getJobConf().getInt(MRJobConfig.SHUFFLE_PARALLEL_COPIES, 5);
      for (int index = 0; index < count; ++index) {
        RipcFetcher<K, V> fetcher = new RipcFetcher<>(context, shared, metrics, this);
        fetcher.start();
        fetchers.add(fetcher);
      }
      while (!shared.scheduler().waitUntilDone(PROGRESS)) {
        context.getReporter().progress();
        throwFailure();
      }
    } finally {
      events.interrupt();
      for (RipcFetcher<K, V> fetcher : fetchers) fetcher.shutDown();
      if (shared.remote() != null) shared.remote().close();
      shared.scheduler().close(); // throws if this thread is interrupted once more
    }
  }

  private RawKeyValueIterator merge() throws IOException, InterruptedException {
    context.getCopyPhase().complete();
    context.getStatus().setPhase(TaskStatus.Phase.SORT);
    context.getReduceTask().statusUpdate(context.getUmbilical());
    RawKeyValueIterator merged;
    try {
      merged = shared.merger().close();
    } catch (Throwable problem) {
      throw new IOException("the last merge fails", problem);
    }
    throwFailure();
    return merged;
  }

  private Thread startEvents() {
    Thread thread =
        new Thread(
            new MapEvents(
                (TaskAttemptID) context.getReduceId(),
                context.getUmbilical(),
                shared.scheduler(),
                this,
                context.getJobConf().getNumReduceTasks()),
            "ripc-shuffle-events");
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  private synchronized void throwFailure() throws IOException {
    if (failure != null) throw new IOException("the shuffle fails in " + failed, failure);
  }

  /** Called by the threads of the shuffle; the first failure ends it. */
  @Override
  public void reportException(Throwable problem) {
    synchronized (this) {
      if (failure != null) return;
      failure = problem;
      failed = Thread.currentThread().getName();
    }
    // Wakes the waiting thread, which looks for a failure.
    synchronized (shared.scheduler()) {
      shared.scheduler().notifyAll();
    }
  }

  @Override
  public void close() {
    if (localRunner != null) {
      localRunner.close();
    } else {
      // The merged records have been read.
      shared.merger().closeFiles();
    }
  }
}
