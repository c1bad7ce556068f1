// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalDirAllocator;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.mapred.Counters;
import org.apache.hadoop.mapred.IFile;
import org.apache.hadoop.mapred.IndexRecord;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.MROutputFiles;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapred.ReduceTask;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapred.ShuffleConsumerPlugin;
import org.apache.hadoop.mapred.SpillRecord;
import org.apache.hadoop.mapred.TaskStatus;
import org.apache.hadoop.mapred.TaskUmbilicalProtocol;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.util.Progress;

/** Map outputs as Hadoop writes them, with random records. */
final class MapFiles {
  static final JobID JOB = new JobID("1700000000000", 1);
  static final Comparator<Pair> ORDER =
      Comparator.comparing(Pair::key, Arrays::compareUnsigned)
          .thenComparing(Pair::value, Arrays::compareUnsigned);

  /** A record. */
  record Pair(byte[] key, byte[] value) {}

  final JobConf conf = new JobConf(false);
  private final Path folder;

  /** The files go to {@code folder/output/ATTEMPT}, as in a task's local directory. */
  MapFiles(Path folder) {
    this.folder = folder;
    conf.setMapOutputKeyClass(BytesWritable.class);
    conf.setMapOutputValueClass(BytesWritable.class);
    conf.set("mapreduce.cluster.local.dir", folder.toString());
    conf.set("hadoop.tmp.dir", folder.toString());
  }

  static TaskAttemptID attempt(int map) {
    return new org.apache.hadoop.mapred.TaskAttemptID("1700000000000", 1, TaskType.MAP, map, 0);
  }

  Path data(int map) {
    return folder.resolve("output/" + attempt(map) + "/file.out");
  }

  /** Sorted records, some of which have the same key. */
  static List<Pair> records(Random random, int count, int longest) {
    List<Pair> records = new ArrayList<>();
    for (int index = 0; index < count; ++index) {
      byte[] key = new byte[random.nextInt(4)];
      byte[] value = new byte[random.nextInt(longest + 1)];
      random.nextBytes(key);
      random.nextBytes(value);
      records.add(new Pair(key, value));
    }
    records.sort(ORDER);
    return records;
  }

  /** Writes an output; a partition for each list. */
  void write(int map, CompressionCodec codec, List<List<Pair>> partitions) throws IOException {
    Path file = data(map);
    Files.createDirectories(file.getParent());
    SpillRecord index = new SpillRecord(partitions.size());
    // Hadoop's own stream starts a process that sets permissions, which is slow in the RDMA lab.
    try (FSDataOutputStream out = new FSDataOutputStream(Files.newOutputStream(file), null)) {
      for (int partition = 0; partition < partitions.size(); ++partition) {
        long start = out.getPos();
        IFile.Writer<BytesWritable, BytesWritable> writer =
            new IFile.Writer<>(conf, out, BytesWritable.class, BytesWritable.class, codec, null);
        for (Pair each : partitions.get(partition))
          writer.append(new BytesWritable(each.key), new BytesWritable(each.value));
        writer.close();
        index.putIndex(
            new IndexRecord(start, writer.getRawLength(), writer.getCompressedLength()), partition);
      }
    }
    index.writeToFile(new org.apache.hadoop.fs.Path(file + ".index"), conf);
  }

  /** Checks that the merge gives the records, in the order of their keys. */
  static void check(List<Pair> expected, RawKeyValueIterator merged) throws IOException {
    List<Pair> got = new ArrayList<>();
    while (merged.next()) {
      BytesWritable key = new BytesWritable();
      BytesWritable value = new BytesWritable();
      key.readFields(view(merged.getKey()));
      value.readFields(view(merged.getValue()));
      Pair pair = new Pair(key.copyBytes(), value.copyBytes());
      if (!got.isEmpty())
        assertTrue(Arrays.compareUnsigned(got.get(got.size() - 1).key(), pair.key()) <= 0);
      got.add(pair);
    }
    merged.close();
    // Records with the same key come in any order.
    got.sort(ORDER);
    List<Pair> sorted = new ArrayList<>(expected);
    sorted.sort(ORDER);
    assertEquals(sorted.size(), got.size());
    for (int index = 0; index < got.size(); ++index) {
      assertArrayEquals(sorted.get(index).key(), got.get(index).key());
      assertArrayEquals(sorted.get(index).value(), got.get(index).value());
    }
  }

  private static DataInputBuffer view(DataInputBuffer of) {
    DataInputBuffer view = new DataInputBuffer();
    view.reset(of.getData(), of.getPosition(), of.getLength() - of.getPosition());
    return view;
  }

  /** What a reduce task gives its shuffle. */
  static ShuffleConsumerPlugin.Context<BytesWritable, BytesWritable> context(
      JobConf conf,
      org.apache.hadoop.mapred.TaskAttemptID attempt,
      CompressionCodec codec,
      TaskUmbilicalProtocol master,
      TaskStatus status,
      ReduceTask task,
      Reporter reporter)
      throws IOException {
    MROutputFiles files = new MROutputFiles();
    files.setConf(conf);
    return new ShuffleConsumerPlugin.Context<>(
        attempt,
        conf,
        FileSystem.getLocal(conf),
        master,
        new LocalDirAllocator("mapreduce.cluster.local.dir"),
        reporter,
        codec,
        null,
        null,
        new Counters.Counter(),
        new Counters.Counter(),
        new Counters.Counter(),
        new Counters.Counter(),
        new Counters.Counter(),
        new Counters.Counter(),
        status,
        new Progress(),
        new Progress(),
        task,
        files,
        null);
  }
}
