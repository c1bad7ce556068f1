// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.libripc.Service;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The bytes that the writers of a service have written and the other sides have not taken yet.
 *
 * <p>Any thread.
 */
final class UnackedWrites {
  private static final Logger LOG = LoggerFactory.getLogger(UnackedWrites.class);
  // Arriving messages show which copies were taken; after the last one, this is checked after this
  // time.
  private static final long SETTLE_NANOS = TimeUnit.MILLISECONDS.toNanos(250);
  private static final long LOOK_NANOS = TimeUnit.MICROSECONDS.toNanos(100);
  // The memory ends with the service. So a client that is only slow gets this long to take what was
  // written; otherwise it would lose the end of its answer. Nobody can tell it from a stuck client.
  private static final long STUCK_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

  private final Service service;
  private final StreamExecutor executor;
  private final Set<CompletableFuture<?>> tickets = ConcurrentHashMap.newKeySet();
  private final AtomicBoolean settling = new AtomicBoolean();

  UnackedWrites(Service service, StreamExecutor executor) {
    this.service = service;
    this.executor = executor;
  }

  /** Adds a message under way that its writer has already forgotten. */
  void add(CompletableFuture<?> ticket) {
    if (ticket.isDone()) return;
    tickets.add(ticket);
    ticket.whenComplete((nothing, problem) -> tickets.remove(ticket));
  }

  /** Called when a quiet message is under way, which no event will report. */
  void settleLater() {
    if (!settling.compareAndSet(false, true)) return;
    executor.schedule(
        () -> {
          settling.set(false);
          for (int left = service.settle(); left > 0; --left) service.settle();
          if (service.settle() > 0) settleLater();
        },
        SETTLE_NANOS,
        TimeUnit.NANOSECONDS);
  }

  /**
   * Waits for all messages, at most this long, and only while some are taken. A peer that takes
   * nothing for a while may be stuck, perhaps in the code that called this.
   */
  void await(long millis) {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    long changed = System.nanoTime();
    for (long left = count(), before = left; left > 0; left = count()) {
      long now = System.nanoTime();
      if (left != before) changed = now;
      before = left;
      if (now - end >= 0 || now - changed >= STUCK_NANOS) {
        LOG.debug("{} messages were not taken", left);
        return;
      }
      LockSupport.parkNanos(LOOK_NANOS);
    }
  }

  private long count() {
    return tickets.size() + (long) service.settle();
  }
}
