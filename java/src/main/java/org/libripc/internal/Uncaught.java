// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

/** What code of the application throws where nobody could catch it. */
public final class Uncaught {
  private Uncaught() {}

  /** As if it had left the thread's {@code run()}. */
  public static void tell(Throwable thrown) {
    Thread thread = Thread.currentThread();
    thread.getUncaughtExceptionHandler().uncaughtException(thread, thrown);
  }
}
