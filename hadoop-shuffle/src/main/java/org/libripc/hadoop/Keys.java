// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import com.sun.management.UnixOperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.libripc.RipcBuilder;

/** The configuration: docs/hadoop.md, "Settings". Sizes are in bytes. */
final class Keys {
  private static final String REDUCER = "mapreduce.reduce.shuffle.ripc.";
  private static final String HANDLER = "mapreduce.shuffle.ripc.";

  // Keys of a job.
  static final String LOCAL = REDUCER + "local";
  static final String REMOTE = REDUCER + "remote";
  static final String IN_PLACE = REDUCER + "in-place";
  static final String IN_PLACE_BYTES = REDUCER + "in-place.bytes";
  static final String REDUCER_FILES = REDUCER + "open-files";
  static final String PIECE_BYTES = REDUCER + "piece.bytes";
  static final String PIECES = REDUCER + "pieces";
  static final String DATA_MAC = REDUCER + "data-mac";
  static final String TIMEOUT = REDUCER + "timeout.ms";
  static final String RETRY = REDUCER + "retry.ms";

  // Keys of a NodeManager.
  static final String ENABLED = HANDLER + "enabled";
  static final String HOST = HANDLER + "host";
  static final String READERS = HANDLER + "readers";
  static final String QUEUE = HANDLER + "queue";
  static final String HANDLER_FILES = HANDLER + "open-files";
  static final String INDEX_BYTES = HANDLER + "index.bytes";
  static final String SESSIONS = HANDLER + "sessions";
  static final String UNDER_WAY = HANDLER + "under-way.bytes";

  // Keys of both.
  static final String PEERS = HANDLER + "peers";

  static final int SMALLEST_PIECE = 64 << 10;
  static final int LARGEST_PIECE = 4 << 20;

  private Keys() {}

  /**
   * A number of a configuration, not less than {@code least}. One beyond an int is the largest int.
   */
  static int atLeast(int least, Configuration conf, String key, int usual) {
    return (int) Math.min(Integer.MAX_VALUE, Math.max(least, conf.getLong(key, usual)));
  }

  static int pieceBytes(Configuration conf) {
    int bytes = atLeast(SMALLEST_PIECE, conf, PIECE_BYTES, 1 << 20);
    return Math.min(bytes, LARGEST_PIECE);
  }

  /** What the windows of a merge in place may take of this JVM's heap. */
  static long inPlaceBytes(Configuration conf) {
    return conf.getLong(IN_PLACE_BYTES, Math.min(64L << 20, Runtime.getRuntime().maxMemory() / 8));
  }

  /**
   * How many outputs a reducer may keep open. If it took more than a quarter of the descriptors of
   * its process, others could find none.
   */
  static int reducerFiles(Configuration conf) {
    int files = atLeast(1, conf, REDUCER_FILES, 4096);
    return ManagementFactory.getOperatingSystemMXBean() instanceof UnixOperatingSystemMXBean unix
        ? (int) Math.max(1, Math.min(files, unix.getMaxFileDescriptorCount() / 4))
        : files;
  }

  /** A context that admits the peers that the configuration names. */
  static RipcBuilder builder(Configuration conf, RipcBuilder builder) {
    String peers = conf.getTrimmed(PEERS, "any").toLowerCase(Locale.ROOT);
    switch (peers) {
      case "any":
        return builder.peers(RipcBuilder.Peers.ANY);
      case "group":
        return builder.peers(RipcBuilder.Peers.SAME_GROUP);
      case "user":
        return builder.peers(RipcBuilder.Peers.SAME_USER);
      default:
        throw new IllegalArgumentException(
            PEERS + " is '" + peers + "': set it to any, group or user");
    }
  }
}
