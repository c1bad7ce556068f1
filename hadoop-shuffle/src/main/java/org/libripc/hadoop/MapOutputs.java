// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.io.SecureIOUtils;
import org.apache.hadoop.mapred.IndexRecord;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.SpillRecord;

/**
 * The map outputs of a NodeManager: where they lie, their indexes, their bytes. Indexes and
 * descriptors are kept up to a limit; the least recently used go first. All threads.
 */
final class MapOutputs {
  private static final int INDEX_RECORD = 24;
  // usercache/USER/appcache/APPLICATION/output/ATTEMPT/file.out, from the end
  private static final int USER = 6;
  private static final int APPLICATION = 4;
  private static final int OVERHEAD = 400; // about, for each known output

  /** Finds a file below the NodeManager's local directories. */
  interface Directories {
    File find(String relative) throws IOException;
  }

  /** An output that was found. Immutable. */
  record Output(String job, Path data, SpillRecord index, int directory) {
    /** A reducer's part, or null. */
    IndexRecord part(int reduce) {
      return reduce < 0 || reduce >= index.size() ? null : index.getIndex(reduce);
    }

    private long bytes() {
      return OVERHEAD + (long) INDEX_RECORD * index.size();
    }
  }

  private final Directories directories;
  private final JobConf conf;
  private final long limit;
  private final OpenFiles files;
  private final Map<String, Output> known = new LinkedHashMap<>(16, 0.75f, true);
  private final List<String> roots = new ArrayList<>();
  private long bytes;

  /**
   * @param indexBytes how much of the heap indexes may take
   * @param openFiles how many descriptors may be open
   */
  MapOutputs(Directories directories, JobConf conf, long indexBytes, int openFiles) {
    this.directories = directories;
    this.conf = conf;
    limit = indexBytes;
    files = new OpenFiles(openFiles, MapOutputs::open);
  }

  private static FileChannel open(Path file) throws IOException {
    // With security on, this refuses a file that does not belong to the user, such as a link to
    // somebody else's.
    String user = part(file, USER);
    return SecureIOUtils.openForRandomRead(file.toFile(), "r", user, null).getChannel();
  }

  private static String part(Path file, int fromEnd) {
    return file.getName(file.getNameCount() - fromEnd).toString();
  }

  private static String application(String job) {
    return "application" + job.substring("job".length());
  }

  /** A known output, without touching a disk. If it is null, {@link #find} the output. */
  synchronized Output known(String attempt) {
    return known.get(attempt);
  }

  /** Finds an output, which may read an index from disk. */
  Output find(String job, String user, String attempt) throws IOException {
    Output before = known(attempt);
    if (before != null) return before;
    String name =
        "usercache/" + user + "/appcache/" + application(job) + "/output/" + attempt + "/file.out";
    File data = directories.find(name);
    File index = directories.find(name + ".index");
    SpillRecord record =
        new SpillRecord(new org.apache.hadoop.fs.Path(index.getPath()), conf, user);
    String root = data.getPath().substring(0, data.getPath().length() - name.length());
    Output found = new Output(job, data.toPath(), record, directoryOf(root));
    add(attempt, found);
    return found;
  }

  /** A small number for a local directory. */
  private synchronized int directoryOf(String root) {
    int number = roots.indexOf(root);
    if (number < 0) {
      number = roots.size();
      roots.add(root);
    }
    return number & 0x7f;
  }

  private synchronized void add(String attempt, Output found) {
    Output before = known.put(attempt, found);
    bytes += found.bytes() - (before == null ? 0 : before.bytes());
    Iterator<Output> eldest = known.values().iterator();
    while (bytes > limit && known.size() > 1) {
      Output dropped = eldest.next();
      bytes -= dropped.bytes();
      eldest.remove();
      files.drop(dropped.data::equals);
    }
  }

  /** Fills a buffer from an output's bytes. */
  void read(Output output, long position, ByteBuffer to) throws IOException {
    files.readFully(output.data, to, position);
  }

  /** Closes and forgets the outputs of a job. */
  synchronized void endJob(String job) {
    known
        .values()
        .removeIf(
            output -> {
              boolean ended = output.job.equals(job);
              if (ended) bytes -= output.bytes();
              return ended;
            });
    // Also drops files that were read after their index was dropped.
    String ended = application(job);
    files.drop(file -> part(file, APPLICATION).equals(ended));
  }

  synchronized int count() {
    return known.size();
  }

  int openFiles() {
    return files.count();
  }

  void close() {
    files.close();
  }
}
