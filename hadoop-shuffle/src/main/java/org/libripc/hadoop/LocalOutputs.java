// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.File;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.apache.hadoop.mapred.IndexRecord;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.SpillRecord;
import org.apache.hadoop.mapreduce.MRConfig;
import org.apache.hadoop.mapreduce.TaskAttemptID;

/**
 * Map outputs in the local directories of this task, which are also those of its host's
 * NodeManager. Attempt IDs are unique, so an output found there is the right one. All threads.
 */
final class LocalOutputs {
  private final JobConf conf;
  private final int reduce;
  private final String[] directories;

  LocalOutputs(JobConf conf, int reduce) {
    this.conf = conf;
    this.reduce = reduce;
    directories = conf.getTrimmedStrings(MRConfig.LOCAL_DIR);
  }

  /**
   * Finds and opens an output.
   *
   * @return null if it is not on this host
   * @throws IOException if it is on this host, but cannot be read
   */
  LocalOutput find(TaskAttemptID map) throws IOException {
    Path data = find(map, "file.out");
    Path index = find(map, "file.out.index");
    if (data == null || index == null) return null;
    SpillRecord record =
        new SpillRecord(new org.apache.hadoop.fs.Path(index.toString()), conf, null);
    if (reduce >= record.size()) throw new IOException(index + " has no part " + reduce);
    IndexRecord part = record.getIndex(reduce);
    FileChannel channel = FileChannel.open(data, StandardOpenOption.READ);
    return new LocalOutput(data, channel, part.startOffset, part.rawLength, part.partLength);
  }

  /** The two files of an output need not be in the same directory. */
  private Path find(TaskAttemptID map, String name) {
    for (String directory : directories) {
      File file = new File(directory, "output/" + map + "/" + name);
      if (file.exists()) return file.toPath();
    }
    return null;
  }
}
