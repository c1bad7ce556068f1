// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/** Where the tasks of {@link ReceivingThreads} come from. */
interface TaskSource {
  /**
   * The next task. Null if there is none now: then an event ends an {@link #await} as soon as there
   * is one. One thread at a time. Throws nothing.
   *
   * @param patient whether it may poll for a while, because the caller has nothing else to do
   */
  Runnable next(boolean patient);

  /** Waits for an event. Each ends the wait of one thread. May return without one. */
  void await();

  /** Ends one wait that is running, or the next one. */
  void wake();

  /** Takes a task for which no thread could be found: somebody waits for its result. */
  void refused(Runnable task);

  /** Until {@link #resume} no event ends an {@link #await}. False if they are needed now. */
  boolean pause();

  /**
   * Events end waits again, including events for messages that came meanwhile and were not taken.
   */
  void resume();

  /**
   * While it is paused: waits for a message, at most this long, and takes it. One thread at a time,
   * while none is in {@link #next}.
   *
   * @return the task; null if there was none, or {@link #endReceive}
   */
  Runnable receive(long nanos) throws InterruptedException;

  /** Ends one {@link #receive} that is running, or the next one. */
  void endReceive();

  /** Runs a task in some milliseconds, in any thread. */
  void later(Runnable look);
}
