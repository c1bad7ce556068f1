// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/**
 * A task that says whether it may block. One that does not may run in the thread that receives. Any
 * other {@link Runnable} is taken to block.
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

  /** Runs it without waiting; called only if that is {@link Blocking#AVOIDABLE}. */
  void runWithoutBlocking();

  /** What any task says. */
  static Blocking of(Runnable task) {
    return task instanceof StreamTask known ? known.blocking() : Blocking.POSSIBLE;
  }

  /**
   * Leaves a task to the calling thread, which runs it after the write that it completes now.
   *
   * @return false if this thread completes none: then the task is still to be run
   */
  static boolean defer(Runnable task) {
    return Completion.defer(task);
  }
}
