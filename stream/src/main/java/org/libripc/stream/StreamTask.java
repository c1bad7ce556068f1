// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/**
 * A task that says whether it may block. One that does not block may run in the receiving thread.
 * Any other {@link Runnable} is assumed to block.
 */
public interface StreamTask extends Runnable {
  /** Whether a task blocks. */
  enum Blocking {
    /** It never waits. */
    NEVER,
    /** It may wait, except in {@link StreamTask#runWithoutBlocking}. */
    AVOIDABLE,
    /** It may wait. */
    POSSIBLE
  }

  /** Asked before each run. */
  Blocking blocking();

  /**
   * Runs the task without waiting; called only if {@link #blocking} is {@link Blocking#AVOIDABLE}.
   */
  void runWithoutBlocking();

  /** The answer of any task. */
  static Blocking of(Runnable task) {
    return task instanceof StreamTask known ? known.blocking() : Blocking.POSSIBLE;
  }

  /**
   * Defers a task to the calling thread, which runs it after the write that it is completing now.
   *
   * @return false if this thread is completing no write: the caller must then run the task
   */
  static boolean defer(Runnable task) {
    return Completion.defer(task);
  }
}
