// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntFunction;
import javax.crypto.SecretKey;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapred.AMFeedback;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.MapTaskCompletionEventsUpdate;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapred.ReduceTask;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapred.ShuffleConsumerPlugin;
import org.apache.hadoop.mapred.ShuffleHandler;
import org.apache.hadoop.mapred.TaskAttemptID;
import org.apache.hadoop.mapred.TaskCompletionEvent;
import org.apache.hadoop.mapred.TaskStatus;
import org.apache.hadoop.mapred.TaskUmbilicalProtocol;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.security.token.JobTokenIdentifier;
import org.apache.hadoop.mapreduce.security.token.JobTokenSecretManager;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.server.api.ApplicationInitializationContext;
import org.apache.hadoop.yarn.server.api.AuxiliaryLocalPathHandler;

/** A shuffle handler and reducers in this process. All is real except the master and the tasks. */
final class OneProcess implements AutoCloseable {
  private static final String USER = "user";

  /** A reducer that has all outputs: how long it waited for them, and its job's counters. */
  record Reduced(long millis, Map<String, Long> counters) {}

  final MapFiles files;

  /** Attempts whose data the handler cannot read over libripc; over HTTP it can. */
  final Set<String> unreadable = ConcurrentHashMap.newKeySet();

  /** The counters of the last reducer, even if it has failed. */
  volatile Map<String, Long> counters = Map.of();

  private final RipcShuffleHandler handler = new RipcShuffleHandler();
  private final int outputs;
  private final SecretKey key;
  private final TaskCompletionEvent[] events;
  private int reducers;

  /** Writes the outputs below {@code root}, with the records that {@code records} makes. */
  OneProcess(Path root, int outputs, IntFunction<List<MapFiles.Pair>> records) throws Exception {
    this.outputs = outputs;
    DefaultMetricsSystem.setMiniClusterMode(true); // several handlers, one after the other
    ApplicationId application =
        ApplicationId.newInstance(
            Long.parseLong(MapFiles.JOB.getJtIdentifier()), MapFiles.JOB.getId());
    files = new MapFiles(root.resolve("usercache/" + USER + "/appcache/" + application));
    files.conf.setNumMapTasks(outputs);
    for (int map = 0; map < outputs; ++map) files.write(map, null, List.of(records.apply(map)));
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
  private String startHandler(Path root, ApplicationId application, ByteBuffer token)
      throws IOException {
    handler.setAuxiliaryLocalPathHandler(new LocalPaths(root, unreadable));
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
  private record LocalPaths(Path root, Set<String> unreadable)
      implements AuxiliaryLocalPathHandler {
    @Override
    public org.apache.hadoop.fs.Path getLocalPathForRead(String path) {
      boolean hidden =
          Thread.currentThread().getName().startsWith("ripc-")
              && unreadable.stream().anyMatch(each -> path.endsWith(each + "/file.out"));
      String name = hidden ? path.replace("file.out", "file.not") : path;
      return new org.apache.hadoop.fs.Path(root.resolve(name).toString());
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

  private static <T> T madeUp(Class<T> type, InvocationHandler says) {
    Class<?>[] types = {type};
    return type.cast(Proxy.newProxyInstance(type.getClassLoader(), types, says));
  }

  /** What the master says to a reducer. */
  private TaskUmbilicalProtocol master() {
    return madeUp(
        TaskUmbilicalProtocol.class,
        (proxy, method, arguments) -> {
          switch (method.getName()) {
            case "getMapCompletionEvents":
              int from = Math.min(outputs, (Integer) arguments[1]);
              int to = Math.min(outputs, from + (Integer) arguments[2]);
              return new MapTaskCompletionEventsUpdate(Arrays.copyOfRange(events, from, to), false);
            case "statusUpdate":
              AMFeedback feedback = new AMFeedback();
              feedback.setTaskFound(true);
              return feedback;
            default:
              return null;
          }
        });
  }

  /** A reporter that adds the plugin's counters to {@code counted}. */
  static Reporter reporter(Map<String, Long> counted) {
    return madeUp(
        Reporter.class,
        (proxy, method, arguments) -> {
          if (!method.getName().equals("incrCounter"))
            return method.invoke(Reporter.NULL, arguments);
          if (ShuffleCounters.GROUP.equals(arguments[0]))
            counted.merge((String) arguments[1], (Long) arguments[2], Long::sum);
          return null;
        });
  }

  /** The status of a reducer. */
  static TaskStatus status() throws ReflectiveOperationException {
    Constructor<?> makeStatus =
        Class.forName("org.apache.hadoop.mapred.ReduceTaskStatus").getDeclaredConstructor();
    makeStatus.setAccessible(true);
    return (TaskStatus) makeStatus.newInstance();
  }

  /** What a reducer does with its merged records. */
  interface Reducer {
    void reduce(RawKeyValueIterator merged) throws IOException;
  }

  /** A new reducer with the shuffle. */
  Reduced reduce(
      ShuffleConsumerPlugin<BytesWritable, BytesWritable> shuffle,
      Map<String, String> settings,
      Reducer reducer)
      throws Exception {
    JobConf conf = new JobConf(files.conf);
    settings.forEach(conf::set);
    TaskAttemptID attempt =
        new TaskAttemptID(
            MapFiles.JOB.getJtIdentifier(), MapFiles.JOB.getId(), TaskType.REDUCE, 0, reducers++);
    ReduceTask task = new ReduceTask("job.xml", attempt, 0, outputs, 1);
    task.setConf(conf);
    task.setShuffleSecret(key);
    TaskStatus status = status();
    counters = new ConcurrentHashMap<>();
    shuffle.init(MapFiles.context(conf, attempt, null, master(), status, task, reporter(counters)));
    long began = System.currentTimeMillis();
    RawKeyValueIterator merged = shuffle.run();
    long took = status.getShuffleFinishTime() - began;
    reducer.reduce(merged);
    merged.close();
    shuffle.close();
    return new Reduced(took, counters);
  }

  @Override
  public void close() {
    handler.stop();
  }
}
