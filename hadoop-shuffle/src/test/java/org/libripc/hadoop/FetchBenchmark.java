// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import javax.crypto.SecretKey;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapred.AMFeedback;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.MapTaskCompletionEventsUpdate;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapred.ReduceTask;
import org.apache.hadoop.mapred.ShuffleConsumerPlugin;
import org.apache.hadoop.mapred.ShuffleHandler;
import org.apache.hadoop.mapred.TaskAttemptID;
import org.apache.hadoop.mapred.TaskCompletionEvent;
import org.apache.hadoop.mapred.TaskStatus;
import org.apache.hadoop.mapred.TaskUmbilicalProtocol;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.security.token.JobTokenIdentifier;
import org.apache.hadoop.mapreduce.security.token.JobTokenSecretManager;
import org.apache.hadoop.mapreduce.task.reduce.Shuffle;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.server.api.ApplicationInitializationContext;
import org.apache.hadoop.yarn.server.api.AuxiliaryLocalPathHandler;

/**
 * How long a reducer takes to get many small outputs: a handler and reducers in one process, where
 * Hadoop's shuffle and libripc's take turns. {@code scripts/bench-hadoop --outputs} runs it.
 */
final class FetchBenchmark {
  private static final String STOCK = "stock";
  private static final String FILES = "ripc, files"; // the reducer reads them
  private static final String SENT = "ripc, sent"; // the handler sends them
  private static final String USER = "user";
  private static final int RECORDS = 100; // of 100 bytes each, in an output

  private final int outputs;
  private final MapFiles files;
  private final SecretKey key;
  private final TaskCompletionEvent[] events;
  private int reducers;

  private FetchBenchmark(Path root, int outputs) throws Exception {
    this.outputs = outputs;
    ApplicationId application =
        ApplicationId.newInstance(
            Long.parseLong(MapFiles.JOB.getJtIdentifier()), MapFiles.JOB.getId());
    files = new MapFiles(root.resolve("usercache/" + USER + "/appcache/" + application));
    files.conf.setNumMapTasks(outputs);
    Random random = new Random(1);
    for (int map = 0; map < outputs; ++map) {
      List<MapFiles.Pair> records = MapFiles.records(random, RECORDS, 190);
      files.write(map, null, List.of(records));
    }
    JobTokenIdentifier identifier = new JobTokenIdentifier(new Text(MapFiles.JOB.toString()));
    Token<JobTokenIdentifier> token = new Token<>(identifier, new JobTokenSecretManager());
    token.setService(identifier.getJobId());
    key = JobTokenSecretManager.createSecretKey(token.getPassword());
    String address = startHandler(root, application, ShuffleHandler.serializeServiceData(token));
    events = new TaskCompletionEvent[outputs];
    for (int map = 0; map < outputs; ++map) {
      TaskAttemptID attempt = (TaskAttemptID) MapFiles.attempt(map);
      events[map] =
          new TaskCompletionEvent(
              map, attempt, map, true, TaskCompletionEvent.Status.SUCCEEDED, "http://" + address);
    }
  }

  /** Returns its address. */
  private static String startHandler(Path root, ApplicationId application, ByteBuffer token)
      throws IOException {
    RipcShuffleHandler handler = new RipcShuffleHandler();
    handler.setAuxiliaryLocalPathHandler(new LocalPaths(root));
    Configuration conf = new Configuration();
    conf.setInt(ShuffleHandler.SHUFFLE_PORT_CONFIG_KEY, 0);
    conf.set("yarn.nodemanager.address", "127.0.0.1:0");
    handler.init(conf);
    handler.start();
    handler.initializeApplication(new ApplicationInitializationContext(USER, application, token));
    int port = ShuffleHandler.deserializeMetaData(handler.getMetaData());
    return InetAddress.getByName("127.0.0.1").getCanonicalHostName() + ":" + port;
  }

  /** What a NodeManager gives its services. */
  private record LocalPaths(Path root) implements AuxiliaryLocalPathHandler {
    @Override
    public org.apache.hadoop.fs.Path getLocalPathForRead(String path) {
      return new org.apache.hadoop.fs.Path(root.resolve(path).toString());
    }

    @Override
    public org.apache.hadoop.fs.Path getLocalPathForWrite(String path) {
      return getLocalPathForRead(path);
    }

    @Override
    public org.apache.hadoop.fs.Path getLocalPathForWrite(String path, long size) {
      return getLocalPathForRead(path);
    }

    @Override
    public Iterable<org.apache.hadoop.fs.Path> getAllLocalPathsForRead(String path) {
      return List.of(getLocalPathForRead(path));
    }
  }

  /** What the master says to a reducer. */
  private TaskUmbilicalProtocol master() {
    Class<?>[] types = {TaskUmbilicalProtocol.class};
    return (TaskUmbilicalProtocol)
        Proxy.newProxyInstance(
            getClass().getClassLoader(),
            types,
            (proxy, method, arguments) -> {
              switch (method.getName()) {
                case "getMapCompletionEvents":
                  int from = Math.min(outputs, (Integer) arguments[1]);
                  int to = Math.min(outputs, from + (Integer) arguments[2]);
                  return new MapTaskCompletionEventsUpdate(
                      Arrays.copyOfRange(events, from, to), false);
                case "statusUpdate":
                  AMFeedback feedback = new AMFeedback();
                  feedback.setTaskFound(true);
                  return feedback;
                default:
                  return null;
              }
            });
  }

  /** Returns how long the reducer waited for all outputs, in milliseconds. */
  private long fetch(String way) throws Exception {
    JobConf conf = new JobConf(files.conf);
    conf.setBoolean(Keys.LOCAL, !way.equals(SENT));
    ShuffleConsumerPlugin<BytesWritable, BytesWritable> shuffle =
        way.equals(STOCK) ? new Shuffle<>() : new RipcShuffle<>();
    TaskAttemptID attempt =
        new TaskAttemptID(
            MapFiles.JOB.getJtIdentifier(), MapFiles.JOB.getId(), TaskType.REDUCE, 0, reducers++);
    ReduceTask task = new ReduceTask("job.xml", attempt, 0, outputs, 1);
    task.setConf(conf);
    task.setShuffleSecret(key);
    Constructor<?> makeStatus =
        Class.forName("org.apache.hadoop.mapred.ReduceTaskStatus").getDeclaredConstructor();
    makeStatus.setAccessible(true);
    TaskStatus status = (TaskStatus) makeStatus.newInstance();
    shuffle.init(MapFiles.context(conf, attempt, null, master(), status, task));
    long began = System.currentTimeMillis();
    RawKeyValueIterator merged = shuffle.run();
    long took = status.getShuffleFinishTime() - began;
    int records = 0;
    while (merged.next()) ++records;
    merged.close();
    shuffle.close();
    if (records != outputs * RECORDS) throw new IOException(records + " records have come");
    return took;
  }

  /** Its words: a folder, how many outputs, how many rounds. Prints the times of each way. */
  public static void main(String[] words) throws Exception {
    FetchBenchmark benchmark = new FetchBenchmark(Path.of(words[0]), Integer.parseInt(words[1]));
    int rounds = Integer.parseInt(words[2]);
    Map<String, long[]> times = new LinkedHashMap<>();
    for (String way : List.of(STOCK, FILES, SENT)) times.put(way, new long[rounds]);
    for (int round = -1; round < rounds; ++round) { // the first one does not count
      for (String way : times.keySet()) {
        long took = benchmark.fetch(way);
        if (round >= 0) times.get(way)[round] = took;
      }
    }
    times.forEach((way, each) -> System.out.println(way + ": " + Arrays.toString(each)));
    System.exit(0); // Hadoop's threads go on
  }
}
