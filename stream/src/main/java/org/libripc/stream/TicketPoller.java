// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Checks from time to time whether the other sides have taken the bytes that writers wait for, when
 * no event reports it and no message comes from them. The first check comes soon, the next ones
 * after growing pauses while a side is slow.
 *
 * <p>Any thread. One timer serves all connections, and runs only while there are any.
 */
final class TicketPoller {
  private static final long FIRST_NANOS = TimeUnit.MILLISECONDS.toNanos(5);
  private static final long LONGEST_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

  private record Due(long at, long pause) {
    static Due in(long pause) {
      return new Due(System.nanoTime() + pause, pause);
    }
  }

  private final StreamExecutor executor;
  private final Map<Outbound, Due> polls = new ConcurrentHashMap<>();
  private final AtomicBoolean ticking = new AtomicBoolean();

  TicketPoller(StreamExecutor executor) {
    this.executor = executor;
  }

  /** Checks a connection until nothing is left to check. */
  void add(Outbound outbound) {
    polls.put(outbound, Due.in(FIRST_NANOS));
    tickLater();
  }

  private void tickLater() {
    if (!ticking.compareAndSet(false, true)) return;
    executor.schedule(this::tick, FIRST_NANOS, TimeUnit.NANOSECONDS);
  }

  private void tick() {
    long now = System.nanoTime();
    try {
      polls.forEach(
          (outbound, due) -> {
            if (due.at - now > 0) return;
            // A thread that has added it again meanwhile has stored another value.
            if (outbound.poll()) {
              polls.replace(outbound, due, Due.in(Math.min(2 * due.pause, LONGEST_NANOS)));
            } else {
              polls.remove(outbound, due);
            }
          });
    } finally { // the executor may have failed
      ticking.set(false);
      if (!polls.isEmpty()) tickLater();
    }
  }
}
