// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import org.apache.hadoop.mapred.TaskAttemptID;
import org.apache.hadoop.mapred.TaskCompletionEvent;
import org.apache.hadoop.mapred.TaskUmbilicalProtocol;
import org.apache.hadoop.mapreduce.task.reduce.ExceptionReporter;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleScheduler;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Asks the master which maps have ended, and tells the scheduler. Hadoop's own class for this is
 * not accessible.
 */
final class MapEvents implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(MapEvents.class);
  private static final int MOST_EVENTS = 10_000;
  private static final int LEAST_EVENTS = 100;
  private static final int EVENTS_OF_ALL = 3_000_000;
  private static final int MOST_FAILURES = 10;
  private static final long AFTER_FAILURE = 5000;

  private final TaskAttemptID reduce;
  private final TaskUmbilicalProtocol umbilical;
  private final ShuffleScheduler<?, ?> scheduler;
  private final ExceptionReporter exceptions;
  private final int atOnce;
  private final long pause;
  private int next;

  MapEvents(
      TaskAttemptID reduce,
      TaskUmbilicalProtocol umbilical,
      ShuffleScheduler<?, ?> scheduler,
      ExceptionReporter exceptions,
      int reduces) {
    this.reduce = reduce;
    this.umbilical = umbilical;
    this.scheduler = scheduler;
    this.exceptions = exceptions;
    int share = Math.max(LEAST_EVENTS, EVENTS_OF_ALL / Math.max(1, reduces));
    atOnce = Math.min(MOST_EVENTS, share);
    pause = pause(reduces);
  }

  /**
   * In milliseconds. All reducers together ask the master 200 times a second; if they are many,
   * each asks once a second.
   */
  static long pause(int reduces) {
    return Math.max(100, Math.min(1000, 5L * reduces));
  }

  /** Runs until it is interrupted. */
  @Override
  public void run() {
    int failures = 0;
    try {
      while (true) {
        try {
          ask();
          failures = 0;
          Thread.sleep(pause);
        } catch (IOException problem) {
          if (++failures == MOST_FAILURES) {
            throw new IOException("the master does not say which maps have ended", problem);
          }
          LOG.info("The master does not answer", problem);
          Thread.sleep(AFTER_FAILURE);
        }
      }
    } catch (InterruptedException end) {
      // all outputs have come
    } catch (Throwable problem) {
      if (!Thread.currentThread().isInterrupted()) exceptions.reportException(problem);
    }
  }

  private void ask() throws IOException, InterruptedException {
    TaskCompletionEvent[] events;
    do {
      events =
          umbilical
              .getMapCompletionEvents(reduce.getJobID(), next, atOnce, reduce)
              .getMapTaskCompletionEvents();
      next += events.length;
      for (TaskCompletionEvent event : events) scheduler.resolve(event);
    } while (events.length == atOnce);
  }
}
