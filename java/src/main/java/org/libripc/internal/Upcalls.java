// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

/**
 * The functions that native code calls, with either binding. The {@code user} argument is the
 * number of the target.
 */
public final class Upcalls {
  /** Takes the calls. It throws nothing, because nobody could catch it. */
  public interface Target {
    void ticketCompleted(long user, int status);

    void notificationCame(long user, long source, long items, long count);

    void serviceChanged(long user, int status, long info);

    void visit(long user, long found);
  }

  private static volatile Target target;

  private Upcalls() {}

  /** Sets the target, before the first function is given to native code. */
  public static void to(Target newTarget) {
    target = newTarget;
  }

  static void ticketCompleted(long user, int status) {
    target.ticketCompleted(user, status);
  }

  static void notificationCame(long user, long source, long items, long count) {
    target.notificationCame(user, source, items, count);
  }

  static void serviceChanged(long user, int status, long info) {
    target.serviceChanged(user, status, info);
  }

  static void visit(long user, long found) {
    target.visit(user, found);
  }
}
