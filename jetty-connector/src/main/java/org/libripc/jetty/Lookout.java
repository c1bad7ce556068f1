// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.eclipse.jetty.util.thread.Scheduler;

/**
 * Looks now and then whether the other sides have taken what writers wait for, where nobody tells
 * and nothing comes of the other side: soon at first, with growing pauses while one is slow.
 *
 * <p>Any thread. One timer for all of them, only while there are any.
 */
final class Lookout {
  private static final long FIRST_NANOS = TimeUnit.MILLISECONDS.toNanos(5);
  private static final long LONGEST_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

  private record Look(long at, long pause) {
    static Look in(long pause) {
      return new Look(System.nanoTime() + pause, pause);
    }
  }

  private final Scheduler scheduler;
  private final Map<Outbound, Look> looks = new ConcurrentHashMap<>();
  private final AtomicBoolean ticking = new AtomicBoolean();

  Lookout(Scheduler scheduler) {
    this.scheduler = scheduler;
  }

  /** Looks at it until there is nothing to look for. */
  void add(Outbound outbound) {
    looks.put(outbound, Look.in(FIRST_NANOS));
    tickLater();
  }

  private void tickLater() {
    if (!ticking.compareAndSet(false, true)) return;
    scheduler.schedule(this::tick, FIRST_NANOS, TimeUnit.NANOSECONDS);
  }

  private void tick() {
    long now = System.nanoTime();
    looks.forEach(
        (outbound, look) -> {
          if (look.at - now > 0) return;
          // Whoever has added it again meanwhile has put another look there.
          if (outbound.look()) {
            looks.replace(outbound, look, Look.in(Math.min(2 * look.pause, LONGEST_NANOS)));
          } else {
            looks.remove(outbound, look);
          }
        });
    ticking.set(false);
    if (!looks.isEmpty()) tickLater();
  }
}
