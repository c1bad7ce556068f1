// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * A few threads and a bounded queue for each local directory. So no disk has to serve many readers
 * at once, and a slow disk does not keep the others waiting. All threads.
 */
final class DirectoryReaders {
  /** The queue of outputs whose directory is not known yet. */
  static final int UNKNOWN = -1;

  private final int readers;
  private final int queue;
  private final Map<Integer, ThreadPoolExecutor> directories = new ConcurrentHashMap<>();
  private volatile boolean closed;

  DirectoryReaders(int readers, int queue) {
    this.readers = readers;
    this.queue = queue;
  }

  /**
   * Runs a task soon.
   *
   * @throws RejectedExecutionException if as many tasks wait as may
   */
  void execute(int directory, Runnable task) {
    if (closed) throw new RejectedExecutionException("closed");
    directories.computeIfAbsent(directory, this::start).execute(task);
  }

  private ThreadPoolExecutor start(int directory) {
    ThreadPoolExecutor started =
        new ThreadPoolExecutor(
            readers,
            readers,
            30,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(queue),
            task -> {
              Thread thread = new Thread(task, "ripc-shuffle-reader-" + directory);
              thread.setDaemon(true);
              return thread;
            });
    started.allowCoreThreadTimeOut(true);
    return started;
  }

  /** Waits for the tasks that run, and drops those that wait. */
  void close() throws InterruptedException {
    closed = true;
    for (ThreadPoolExecutor each : directories.values()) each.shutdownNow();
    for (ThreadPoolExecutor each : directories.values()) each.awaitTermination(5, TimeUnit.SECONDS);
  }
}
