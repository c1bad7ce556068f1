// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;

/**
 * Warnings of problems that may repeat often: at most one a second is logged as a warning, the
 * others as debug messages.
 *
 * <p>Any thread.
 */
final class RateLimitedLog {
  private static final long PAUSE_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final Logger log;
  private final AtomicLong last = new AtomicLong(System.nanoTime() - PAUSE_NANOS);
  private final AtomicLong unsaid = new AtomicLong();

  RateLimitedLog(Logger log) {
    this.log = log;
  }

  void warn(String text, Throwable problem) {
    long before = last.get();
    long now = System.nanoTime();
    if (now - before < PAUSE_NANOS || !last.compareAndSet(before, now)) {
      unsaid.incrementAndGet();
      log.debug(text, problem);
      return;
    }
    long others = unsaid.getAndSet(0);
    if (others == 0) {
      log.warn(text, problem);
    } else {
      log.warn(
          "{} (and {} warnings since the last one are in the debug log)", text, others, problem);
    }
  }
}
