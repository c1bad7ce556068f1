// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
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

/**
 * Hadoop's fetcher, which tries the files of this host and libripc first. What they do not give
 * goes back to the scheduler, and over HTTP in the same visit. So only HTTP's failures are
 * failures.
 */
final class RipcFetcher<K, V> extends Fetcher<K, V> implements RemoteFetch.Target<K, V> {
  private static final int CHECK_BUFFER = 256 << 10;

  /** What all fetchers of a reducer have. */
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
  private byte[] buffer; // for checking; made with the first output that stays in place
  private volatile boolean stopped;
  // Of the visit.
  private MapHost visited;
  private Set<TaskAttemptID> left;

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

  /** By which path this thread gets what it gets now. */
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
    List<TaskAttemptID> forHttp = new ArrayList<>();
    boolean waits;
    try {
      take(host, forHttp);
      waits = useLocal && fetchLocal();
      if (!waits && useRemote && !left.isEmpty()) waits = fetchRemote();
    } catch (InterruptedException | InterruptedIOException end) {
      Thread.currentThread().interrupt();
      waits = true;
    } finally {
      path = ShufflePath.HTTP;
      for (TaskAttemptID map : left) shared.scheduler.putBackKnownMapOutput(host, map);
      for (TaskAttemptID map : forHttp) shared.scheduler.putBackKnownMapOutput(host, map);
    }
    if (waits || stopped || left.isEmpty() && forHttp.isEmpty()) return;
    shared.counters.takes(host.getHostName(), path, "see the reasons above");
    super.copyFromHost(host);
  }

  /** All that is known of a host: the scheduler gives 20 at once. */
  private void take(MapHost host, List<TaskAttemptID> forHttp) {
    while (left.size() < Wire.MOST_OUTPUTS - 20) {
      List<TaskAttemptID> some = shared.scheduler.getMapsForHost(host);
      if (some.isEmpty()) return;
      for (TaskAttemptID map : some) {
        if (shared.onlyHttp.contains(map)) {
          forHttp.add(map);
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
    Iterator<TaskAttemptID> maps = left.iterator();
    while (maps.hasNext() && !stopped) {
      TaskAttemptID map = maps.next();
      MapOutput<K, V> output = null;
      try {
        long start = Time.monotonicNow();
        LocalOutput found = shared.local.find(map);
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
        maps.remove();
      } catch (ReserveFailed mine) {
        maps.remove();
        shared.scheduler.reportLocalError(mine.reason);
        return true;
      } catch (InterruptedIOException | java.nio.channels.ClosedByInterruptException end) {
        if (output != null) output.abort();
        throw new InterruptedIOException(end.getMessage());
      } catch (IOException | RuntimeException | InternalError problem) { // codecs throw the last
        if (output != null) output.abort();
        // A damaged file is the same over any path; HTTP's failures are reported.
        if (output != null) shared.onlyHttp.add(map);
        shared.counters.fallsBack(visited.getHostName(), Fallback.LOCAL_FILE, 1, problem);
      }
    }
    return false;
  }

  private MapOutput<K, V> reserveLocal(TaskAttemptID map, LocalOutput found) throws ReserveFailed {
    MapOutput<K, V> output = shared.merger.reserveInPlace(map, found);
    return output != null ? output : reserve(map, found.raw());
  }

  /** Of Hadoop's merge: this reducer has no room on its disks. */
  private static final class ReserveFailed extends IOException {
    private static final long serialVersionUID = 1;
    final transient IOException reason;

    ReserveFailed(IOException reason) {
      super(reason);
      this.reason = reason;
    }
  }

  private MapOutput<K, V> reserve(TaskAttemptID map, long raw) throws ReserveFailed {
    try {
      return shared.merger.reserve(map, raw - CryptoUtils.cryptoPadding(conf), id);
    } catch (IOException problem) {
      throw new ReserveFailed(problem);
    }
  }

  /** Hadoop's merge takes it: it checks the bytes. */
  private void fill(MapOutput<K, V> output, long part, long raw, InputStream decrypted)
      throws IOException {
    int padding = CryptoUtils.cryptoPadding(conf);
    output.shuffle(visited, decrypted, part - padding, raw - padding, metrics, reporter);
  }

  private void succeeded(TaskAttemptID map, MapOutput<K, V> output, long part, long start)
      throws IOException {
    long bytes = part - CryptoUtils.cryptoPadding(conf);
    shared.scheduler.copySucceeded(map, visited, bytes, start, Time.monotonicNow(), output);
    metrics.successFetch();
  }

  // ---- Other hosts, and what this task may not open ----

  private boolean fetchRemote() throws IOException, InterruptedException {
    String name = visited.getHostName();
    RemoteHost host = shared.remote.host(name);
    try {
      path = ShufflePath.of(host.way().transport());
      shared.counters.takes(name, path, host.way().reason());
      Collection<TaskAttemptID> wanted = List.copyOf(left);
      return new RemoteFetch<>(shared.remote, host, reduce, this).fetch(wanted);
    } catch (ReserveFailed mine) {
      shared.scheduler.reportLocalError(mine.reason);
      return true;
    } catch (InterruptedIOException end) {
      throw end;
    } catch (ShuffleFailure failure) {
      leave(host, failure);
    } catch (IOException | RuntimeException problem) {
      leave(host, new ShuffleFailure(Fallback.FAILED, problem.toString()));
    }
    return false;
  }

  private void leave(RemoteHost host, ShuffleFailure failure) {
    host.avoid(failure);
    shared.counters.fallsBack(
        visited.getHostName(), failure.why(), left.size(), failure.getMessage());
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
    left.remove(map);
  }

  @Override
  public void failed(TaskAttemptID map, ShuffleFailure why) {
    shared.onlyHttp.add(map);
    shared.counters.fallsBack(visited.getHostName(), why.why(), 1, why.getMessage());
  }
}
