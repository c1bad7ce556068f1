// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicLong;

/** The last net: what the garbage collector finds unclosed is given back, and reported. */
final class Leaks {
  static final Cleaner CLEANER = Cleaner.create();

  private static final boolean TRACES = Boolean.getBoolean("org.libripc.leaks.traces");
  private static final AtomicLong REPORTED = new AtomicLong();

  private Leaks() {}

  /** Where an object was made, if that is wanted, to be told when it leaks. */
  static Throwable trace() {
    return TRACES ? new Throwable("made here") : null;
  }

  static void report(String what, Throwable trace) {
    REPORTED.incrementAndGet();
    System.getLogger("org.libripc")
        .log(
            System.Logger.Level.WARNING,
            what
                + (trace != null
                    ? ""
                    : " (-Dorg.libripc.leaks.traces=true shows where it was made)"),
            trace);
  }

  static long reported() {
    return REPORTED.get();
  }
}
