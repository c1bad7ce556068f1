// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.util.Collection;
import java.util.EnumMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The counters of the job, and one line in the log for each host and path. All threads. */
final class ShuffleCounters {
  static final String GROUP = "RipcShuffle";
  static final String IN_PLACE = "IN_PLACE_BYTES";
  private static final Logger LOG = LoggerFactory.getLogger(RipcShuffle.class);

  private final Reporter reporter;
  private final Set<String> told = ConcurrentHashMap.newKeySet();
  private final Map<Fallback, Set<TaskAttemptID>> counted = new EnumMap<>(Fallback.class);

  ShuffleCounters(Reporter reporter) {
    this.reporter = reporter;
    for (Fallback why : Fallback.values()) counted.put(why, ConcurrentHashMap.newKeySet());
  }

  private void add(String name, long value) {
    reporter.incrCounter(GROUP, name, value);
  }

  /** Counts an output that has come. */
  void came(ShufflePath path, long bytes) {
    add(path.counter(), bytes);
  }

  void staysInPlace(long bytes) {
    add(IN_PLACE, bytes);
  }

  /**
   * Counts and logs outputs of a host that are left to another path. Each counts once, however
   * often it is tried.
   */
  void fallsBack(String host, Fallback why, Collection<TaskAttemptID> outputs, Object detail) {
    long fresh = outputs.stream().filter(counted.get(why)::add).count();
    if (fresh > 0) add(why.counter(), fresh);
    if (told.add(host + why))
      LOG.warn("Outputs of {} come over another path: {} ({})", host, why.text, detail);
  }

  /** Logs over which path the outputs of a host come. */
  void takes(String host, ShufflePath path, Object why) {
    if (told.add(host + path)) LOG.info("Outputs of {} come over {}: {}", host, path, why);
  }
}
