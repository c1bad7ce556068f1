// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.Merger;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapred.ShuffleConsumerPlugin;
import org.apache.hadoop.mapreduce.CryptoUtils;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.task.reduce.ExceptionReporter;
import org.apache.hadoop.mapreduce.task.reduce.MapOutput;
import org.apache.hadoop.mapreduce.task.reduce.MergeManager;
import org.apache.hadoop.mapreduce.task.reduce.MergeManagerImpl;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Merges map outputs of this host where they lie: each takes no memory but a window, and no second
 * file. Each has a descriptor until it is merged. Other outputs go to Hadoop's merge manager, whose
 * result is one more segment. All threads.
 */
final class RipcMergeManager<K, V> implements MergeManager<K, V> {
  private static final Logger LOG = LoggerFactory.getLogger(RipcMergeManager.class);
  private static final int SMALLEST_WINDOW = 16 << 10;
  private static final int LARGEST_WINDOW = 256 << 10;

  private final ShuffleConsumerPlugin.Context<K, V> context;
  private final JobConf conf;
  private final MergeManager<K, V> others;
  private final ShuffleCounters counters;
  private final boolean inPlace;
  private final long budget;
  private final long perOutput; // bytes, for its decompressor
  private final List<InPlaceOutput<K, V>> outputs = new ArrayList<>();
  private final int mostFiles;
  private long taken;
  private int files;
  private long otherBytes;

  RipcMergeManager(
      ShuffleConsumerPlugin.Context<K, V> context,
      ExceptionReporter exceptions,
      ShuffleCounters counters) {
    this(context, counters, stock(context, exceptions));
  }

  RipcMergeManager(
      ShuffleConsumerPlugin.Context<K, V> context,
      ShuffleCounters counters,
      MergeManager<K, V> others) {
    this.context = context;
    this.counters = counters;
    this.others = others;
    conf = context.getJobConf();
    CompressionCodec codec = context.getCodec();
    perOutput = CodecMemory.of(codec, conf);
    boolean wanted = conf.getBoolean(Keys.IN_PLACE, true) && conf.getBoolean(Keys.LOCAL, true);
    inPlace = wanted && perOutput >= 0;
    budget = Keys.inPlaceBytes(conf);
    mostFiles = Keys.reducerFiles(conf);
    if (inPlace) {
      LOG.info(
          "Outputs of this host are merged where they lie, through windows of together {} bytes{}{}{}",
          budget,
          codec == null ? "" : ", decompressed by " + codec.getClass(),
          CryptoUtils.isEncryptedSpillEnabled(conf) ? ", decrypted" : "",
          context.getCombinerClass() == null ? "" : "; the combiner is not run again on them");
    } else if (wanted) {
      LOG.info("Hadoop's merge takes all outputs: what {} takes is not known", codec.getClass());
    } else {
      LOG.info("Hadoop's merge takes all outputs, as the configuration says");
    }
  }

  private static <K, V> MergeManager<K, V> stock(
      ShuffleConsumerPlugin.Context<K, V> context, ExceptionReporter exceptions) {
    return new MergeManagerImpl<>(
        context.getReduceId(),
        context.getJobConf(),
        context.getLocalFS(),
        context.getLocalDirAllocator(),
        context.getReporter(),
        context.getCodec(),
        context.getCombinerClass(),
        context.getCombineCollector(),
        context.getSpilledRecordsCounter(),
        context.getReduceCombineInputCounter(),
        context.getMergedMapOutputsCounter(),
        exceptions,
        context.getMergePhase(),
        context.getMapOutputFile());
  }

  @Override
  public void waitForResource() throws InterruptedException {
    others.waitForResource();
  }

  @Override
  public MapOutput<K, V> reserve(TaskAttemptID map, long size, int fetcher) throws IOException {
    MapOutput<K, V> reserved = others.reserve(map, size, fetcher);
    if (reserved != null) {
      synchronized (this) {
        otherBytes += size;
      }
    }
    return reserved;
  }

  /**
   * Takes an open output that stays where it is; null if there is no room for its window or
   * descriptor.
   */
  synchronized InPlaceOutput<K, V> reserveInPlace(TaskAttemptID map, LocalOutput output) {
    long needed = least(output);
    if (!inPlace || taken + needed > budget || files == mostFiles) return null;
    taken += needed;
    ++files;
    return new InPlaceOutput<>(this, map, output);
  }

  private long least(LocalOutput output) {
    return perOutput + Math.min(SMALLEST_WINDOW, output.raw());
  }

  synchronized void release(InPlaceOutput<K, V> output) {
    taken -= least(output.output());
    --files;
    output.output().close();
  }

  synchronized void commit(InPlaceOutput<K, V> output) throws IOException {
    outputs.add(output);
    counters.staysInPlace(output.output().length() - CryptoUtils.cryptoPadding(conf));
  }

  /** Call this after the merge, whose end may not have been read. */
  synchronized void closeFiles() {
    for (InPlaceOutput<K, V> each : outputs) each.output().close();
  }

  @Override
  public RawKeyValueIterator close() throws Throwable {
    RawKeyValueIterator rest = others.close();
    synchronized (this) {
      return outputs.isEmpty() ? rest : merge(rest);
    }
  }

  @SuppressWarnings("unchecked") // the configuration's classes are the job's
  private RawKeyValueIterator merge(RawKeyValueIterator rest) throws IOException {
    CompressionCodec codec = context.getCodec();
    long share = budget / outputs.size() - perOutput;
    int window = (int) Math.max(SMALLEST_WINDOW, Math.min(LARGEST_WINDOW, share));
    List<Merger.Segment<K, V>> segments = new ArrayList<>();
    for (InPlaceOutput<K, V> each : outputs) {
      PartReader<K, V> reader = new PartReader<>(conf, each.output(), codec, window);
      segments.add(new Merger.Segment<>(reader, true, context.getMergedMapOutputsCounter()));
    }
    if (otherBytes > 0) {
      IteratorReader<K, V> reader = new IteratorReader<>(conf, rest, otherBytes);
      segments.add(new Merger.Segment<>(reader, true));
    }
    LOG.info(
        "Merging {} outputs in place, through windows of {} bytes{}",
        outputs.size(),
        window,
        otherBytes > 0 ? ", and what was fetched" : "");
    FileSystem raw = ((LocalFileSystem) context.getLocalFS()).getRaw();
    return Merger.merge(
        conf,
        raw,
        (Class<K>) conf.getMapOutputKeyClass(),
        (Class<V>) conf.getMapOutputValueClass(),
        segments,
        Math.max(2, segments.size()),
        new Path(context.getReduceId().toString()),
        (org.apache.hadoop.io.RawComparator<K>) conf.getOutputKeyComparator(),
        context.getReporter(),
        null,
        null,
        context.getMergePhase());
  }
}
