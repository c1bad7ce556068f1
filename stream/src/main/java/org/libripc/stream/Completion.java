// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.ArrayList;
import java.util.List;

/**
 * Completes a write in the receiving thread, which then goes on with the next task: the task of the
 * message that reported the write, or one that the completion has deferred to this thread.
 */
final class Completion implements StreamTask {
  private static final ThreadLocal<List<Runnable>> DEFERRED = new ThreadLocal<>();

  private final Runnable completion;
  private final List<Runnable> following = new ArrayList<>(2);

  /**
   * @param completion does not block
   * @param next the task of the message; null: none
   */
  Completion(Runnable completion, Runnable next) {
    this.completion = completion;
    if (next != null) following.add(next);
  }

  static boolean defer(Runnable task) {
    List<Runnable> deferred = DEFERRED.get();
    if (deferred == null) return false;
    if (!deferred.contains(task)) deferred.add(task);
    return true;
  }

  @Override
  public void run() {
    DEFERRED.set(following);
    try {
      completion.run();
    } finally {
      DEFERRED.remove();
    }
  }

  /** The tasks to be run after it. */
  List<Runnable> following() {
    return following;
  }

  @Override
  public Blocking blocking() {
    return Blocking.NEVER;
  }

  @Override
  public void runWithoutBlocking() {
    run();
  }
}
