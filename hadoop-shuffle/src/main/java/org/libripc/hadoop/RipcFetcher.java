// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.fs.ChecksumException;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapred.ShuffleConsumerPlugin;
import org.apache.hadoop.mapreduce.CryptoUtils;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.task.reduce.ExceptionReporter;
import org.apache.hadoop.mapreduce.task.reduce.Fetcher;
import org.apache.hadoop.mapreduce.task.reduce.MapHost;
import org.apache.hadoop.mapreduce.task.reduce.MapOutput;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleClientMetrics;
import org.apache.hadoop.util.Time;
import org.libripc.ServiceInfo;

/**
 * Hadoop's fetcher, which tries the files of this host and libripc first. Outputs that do not come
 * from them go back to the scheduler, or over HTTP in the same visit. So only HTTP's failures count
 * as failures.
 */
final class RipcFetcher<K, V> extends Fetcher<K, V> implements RemoteFetch.Target<K, V> {
  private static final int CHECK_BUFFER = 256 << 10;
  private static final int AT_ONCE = 20; // Hadoop's scheduler gives this many at once

  /** What all fetchers of a reducer share. */
  record Shared<K, V>(
      CountingScheduler<K, V> scheduler,
      RipcMergeManager<K, V> merger,
      LocalOutputs local,
      RemoteShuffle remote,
      ShuffleCounters counters,
      Set<TaskAttemptID> onlyHttp) {}

  private final JobConf conf;
  private final Reporter reporter;
  private final Shared<K, V> shared;
  private final boolean useLocal;
  private final boolean useRemote;
  private ShufflePath path = ShufflePath.HTTP;
  private byte[] buffer; // for checks; made for the first output that stays in place
  private volatile boolean stopped;
  // State of the current visit.
  private MapHost visited;
  private Set<TaskAttemptID> left;
  private List<TaskAttemptID> rest; // HTTP may get them
  private List<TaskAttemptID> forHttp;

  RipcFetcher(
      ShuffleConsumerPlugin.Context<K, V> context,
      Shared<K, V> shared,
      ShuffleClientMetrics metrics,
      ExceptionReporter exceptions) {
    super(
        context.getJobConf(),
        context.getReduceId(),
        shared.scheduler,
        shared.merger,
        context.getReporter(),
        metrics,
        exceptions,
        context.getReduceTask().getShuffleSecret());
    conf = context.getJobConf();
    reporter = context.getReporter();
    this.shared = shared;
    useLocal = conf.getBoolean(Keys.LOCAL, true);
    useRemote = shared.remote != null;
  }

  /** The path over which this thread fetches now. */
  ShufflePath path() {
    return path;
  }

  @Override
  public void shutDown() throws InterruptedException {
    stopped = true;
    super.shutDown();
  }

  @Override
  protected void copyFromHost(MapHost host) throws IOException {
    visited = host;
    left = new LinkedHashSet<>();
    rest = new ArrayList<>();
    boolean waits = true;
    try {
      take(host);
      waits = useLocal && fetchLocal() || useRemote && !left.isEmpty() && fetchRemote();
    } catch (InterruptedException | InterruptedIOException end) {
      Thread.currentThread().interrupt();
    } finally {
      path = ShufflePath.HTTP;
      rest.addAll(left);
      List<TaskAttemptID> later =
          rest.subList(waits || stopped ? 0 : Math.min(AT_ONCE, rest.size()), rest.size());
      for (TaskAttemptID map : later) shared.scheduler.putBackKnownMapOutput(host, map);
      later.clear();
    }
    if (rest.isEmpty()) return;
    shared.counters.takes(host.getHostName(), path, "see the reasons above");
    forHttp = rest;
    try {
      super.copyFromHost(host);
    } finally {
      forHttp = null;
    }
  }

  /** What Hadoop's part of the visit has to fetch; null if it is not its turn. */
  List<TaskAttemptID> forHttp() {
    return forHttp;
  }

  /** Takes all known outputs of a host. */
  private void take(MapHost host) {
    while (left.size() < Wire.MOST_OUTPUTS - AT_ONCE) {
      List<TaskAttemptID> some = shared.scheduler.getMapsForHost(host);
      if (some.isEmpty()) return;
      for (TaskAttemptID map : some) {
        if (shared.onlyHttp.contains(map)) {
          rest.add(map);
        } else {
          left.add(map);
        }
      }
    }
  }

  // ---- Files of this host ----

  /** Returns whether the rest waits for room. */
  private boolean fetchLocal() throws IOException {
    path = ShufflePath.LOCAL;
    for (TaskAttemptID map : List.copyOf(left)) {
      if (stopped) break;
      LocalOutput found = null;
      MapOutput<K, V> output = null;
      try {
        long start = Time.monotonicNow();
        found = shared.local.find(map);
        if (found == null) continue;
        output = reserveLocal(map, found);
        if (output == null) return true;
        if (output instanceof InPlaceOutput<K, V>) {
          if (buffer == null) buffer = new byte[CHECK_BUFFER];
          found.check(conf, buffer);
        } else {
          fill(output, found.length(), found.raw(), found.open(conf));
        }
        shared.counters.takes(visited.getHostName(), path, "they are in this task's directories");
        succeeded(map, output, found.length(), start);
      } catch (ReducerFailure mine) {
        if (output != null) output.abort();
        shared.scheduler.reportLocalError(mine);
        return true;
      } catch (InterruptedIOException | ClosedByInterruptException end) {
        if (output != null) output.abort();
        throw new InterruptedIOException(end.getMessage());
      } catch (IOException | RuntimeException | InternalError problem) { // codecs throw the last
        if (output != null) output.abort();
        if (output == null || problem instanceof ShuffleFailure) {
          // The NodeManager may be able to read it.
          fallsBack(Fallback.LOCAL_FILE, List.of(map), problem);
        } else {
          failed(map, new ShuffleFailure(Fallback.CHECKSUM, problem.toString()));
        }
      } finally {
        // An output that stays in place is open until it is merged.
        if (found != null && !(output instanceof InPlaceOutput<K, V>)) found.close();
      }
    }
    return false;
  }

  private MapOutput<K, V> reserveLocal(TaskAttemptID map, LocalOutput found) throws ReducerFailure {
    MapOutput<K, V> output = shared.merger.reserveInPlace(map, found);
    return output != null ? output : reserve(map, found.raw());
  }

  private MapOutput<K, V> reserve(TaskAttemptID map, long raw) throws ReducerFailure {
    try {
      return shared.merger.reserve(map, raw - CryptoUtils.cryptoPadding(conf), id);
    } catch (IOException problem) {
      throw new ReducerFailure(problem);
    }
  }

  /** Hands the bytes to Hadoop's merge, which checks them. */
  private void fill(MapOutput<K, V> output, long part, long raw, InputStream decrypted)
      throws IOException {
    int padding = CryptoUtils.cryptoPadding(conf);
    try {
      output.shuffle(visited, decrypted, part - padding, raw - padding, metrics, reporter);
    } catch (ShuffleFailure
        | ChecksumException
        | EOFException
        | InterruptedIOException
        | ClosedByInterruptException read) {
      throw read;
    } catch (IOException problem) {
      // In memory, this is how a codec reports damage. Bytes for a disk are written as they are, so
      // the failure is the reducer's own.
      if (output.getDescription().equals("DISK")) throw new ReducerFailure(problem);
      throw problem;
    }
  }

  /** The output belongs to the reducer now, and no longer to the visit. */
  private void succeeded(TaskAttemptID map, MapOutput<K, V> output, long part, long start)
      throws ReducerFailure {
    try {
      long bytes = part - CryptoUtils.cryptoPadding(conf);
      shared.scheduler.copySucceeded(map, visited, bytes, start, Time.monotonicNow(), output);
    } catch (IOException problem) {
      throw new ReducerFailure(problem);
    }
    metrics.successFetch();
    left.remove(map);
  }

  private void fallsBack(Fallback why, Collection<TaskAttemptID> maps, Object detail) {
    shared.counters.fallsBack(visited.getHostName(), why, maps, detail);
  }

  // ---- Other hosts, and what this task may not open ----

  private boolean fetchRemote() throws IOException, InterruptedException {
    String name = visited.getHostName();
    RemoteHost host = shared.remote.host(name);
    while (!left.isEmpty()) {
      try {
        ServiceInfo way = host.visit();
        path = ShufflePath.of(way.transport());
        shared.counters.takes(name, path, way.reason());
        return new RemoteFetch<>(shared.remote, host, reduce, this).fetch(List.copyOf(left));
      } catch (ReducerFailure mine) {
        shared.scheduler.reportLocalError(mine);
        return true;
      } catch (InterruptedIOException end) {
        throw end;
      } catch (ShuffleFailure failure) {
        TaskAttemptID missing = failure.output();
        if (missing == null || !left.contains(missing)) {
          leave(host, failure);
          return false;
        }
        // The other outputs come without it.
        failed(missing, failure);
      } catch (IOException | RuntimeException problem) {
        leave(host, new ShuffleFailure(Fallback.FAILED, problem.toString()));
        return false;
      }
    }
    return false;
  }

  private void leave(RemoteHost host, ShuffleFailure failure) {
    host.avoid(failure);
    fallsBack(failure.why(), left, failure.getMessage());
  }

  @Override
  public MapOutput<K, V> reserve(TaskAttemptID map, Wire.Size size) throws IOException {
    return stopped ? null : reserve(map, size.raw());
  }

  @Override
  public void fill(TaskAttemptID map, MapOutput<K, V> output, Wire.Size size, InputStream in)
      throws IOException {
    long start = Time.monotonicNow();
    fill(output, size.part(), size.raw(), CryptoUtils.wrapIfNecessary(conf, in, size.part()));
    succeeded(map, output, size.part(), start);
  }

  @Override
  public void failed(TaskAttemptID map, ShuffleFailure why) {
    // Damage is the same over any path; HTTP's failures are reported.
    shared.onlyHttp.add(map);
    left.remove(map);
    rest.add(map);
    fallsBack(why.why(), List.of(map), why.getMessage());
  }
}
