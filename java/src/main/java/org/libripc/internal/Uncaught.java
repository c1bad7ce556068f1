// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

/** Handles exceptions of application code that nobody could catch. */
public final class Uncaught {
  private Uncaught() {}

  /** Treats the exception as if it had left the thread's {@code run()}. */
  public static void tell(Throwable thrown) {
    Thread thread = Thread.currentThread();
    try {
      thread.getUncaughtExceptionHandler().uncaughtException(thread, thrown);
    } catch (Throwable ignored) {
      // as the JVM does
    }
  }
}
