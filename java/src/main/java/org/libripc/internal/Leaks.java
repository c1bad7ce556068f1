// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.lang.ref.Cleaner;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * The last safety net: releases and reports objects that the garbage collector finds unclosed. The
 * log gets at most one entry a second, which also counts the leaks since the last one.
 */
public final class Leaks {
  public static final Cleaner CLEANER = Cleaner.create();

  private static final boolean TRACES = Boolean.getBoolean("org.libripc.leaks.traces");
  private static final long PAUSE = TimeUnit.SECONDS.toNanos(1);
  private static final String ADVICE =
      TRACES
          ? ""
          : "; -Dorg.libripc.leaks.traces=true shows where it was made (docs/java.md, \"What is not closed\")";

  // Guarded by the class.
  private static final Map<String, Integer> UNTOLD = new TreeMap<>();
  private static long reported;
  private static long lastEntry = System.nanoTime() - PAUSE;

  private Leaks() {}

  /** Where an object was made, for the report if it leaks; null if traces are off. */
  public static Throwable trace() {
    return TRACES ? new Throwable("made here") : null;
  }

  /**
   * @param type of the object
   * @param detail which one it was; may be empty
   */
  public static synchronized void report(String type, String detail, Throwable trace) {
    ++reported;
    long wait = lastEntry + PAUSE - System.nanoTime();
    if (wait <= 0) {
      lastEntry = System.nanoTime();
      log("A " + type + detail + " was never closed" + ADVICE, trace);
      return;
    }
    if (UNTOLD.isEmpty()) {
      CompletableFuture.delayedExecutor(wait, TimeUnit.NANOSECONDS).execute(Leaks::tellTheRest);
    }
    UNTOLD.merge(type, 1, Integer::sum);
  }

  private static synchronized void tellTheRest() {
    lastEntry = System.nanoTime();
    String counts =
        UNTOLD.entrySet().stream()
            .map(each -> each.getValue() + " " + each.getKey())
            .collect(Collectors.joining(", "));
    UNTOLD.clear();
    log("Others were never closed either: " + counts + ADVICE, null);
  }

  private static void log(String text, Throwable trace) {
    System.getLogger("org.libripc").log(System.Logger.Level.WARNING, text, trace);
  }

  /** How many objects were reported. */
  public static synchronized long reported() {
    return reported;
  }
}
