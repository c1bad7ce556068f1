// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.LongConsumer;
import org.libripc.internal.Binding;
import org.libripc.internal.Guard;
import org.libripc.internal.Layout;
import org.libripc.internal.Layout.View;
import org.libripc.internal.NativeBinding;
import org.libripc.internal.Uncaught;
import org.libripc.internal.Upcalls;

/**
 * The targets of native callbacks. The {@code user} argument names the target. It is a number that
 * is never reused, so a callback that comes too late finds none.
 */
final class Callbacks {
  private static final long CLOSE_PAUSE = 1_000_000;
  private static final AtomicLong NEXT = new AtomicLong(1);
  private static final Map<Long, Ticket> TICKETS = new ConcurrentHashMap<>();
  private static final Map<Long, NotificationHandler> HANDLERS = new ConcurrentHashMap<>();
  private static final Map<Long, ServiceWatcher> WATCHERS = new ConcurrentHashMap<>();
  private static final Map<Long, Visit> VISITS = new ConcurrentHashMap<>();
  private static final ThreadLocal<Boolean> RUNNING = new ThreadLocal<>();

  static {
    Upcalls.to(
        new Upcalls.Target() {
          @Override
          public void ticketCompleted(long user, int status) {
            Ticket ticket = TICKETS.remove(user);
            if (ticket != null) run(() -> ticket.completed(status));
          }

          @Override
          public void notificationCame(long user, long source, long items, long count) {
            NotificationHandler handler = HANDLERS.get(user);
            if (handler != null)
              run(() -> handler.notified(ServiceId.of(source), copies(items, (int) count)));
          }

          @Override
          public void serviceChanged(long user, int status, long info) {
            ServiceWatcher watcher = WATCHERS.get(user);
            if (watcher != null)
              run(
                  () ->
                      watcher.changed(
                          Status.of(status),
                          ServiceInfo.read(Binding.get().view(info, Layout.Info.BYTES))));
          }

          @Override
          public void visit(long user, long found) {
            VISITS.get(user).to(found);
          }
        });
  }

  static final long TICKET_ADDRESS = Binding.get().ticketFunction();
  static final long NOTIFICATION_ADDRESS = Binding.get().notificationFunction();
  static final long WATCH_ADDRESS = Binding.get().watchFunction();

  private Callbacks() {}

  // ---- Targets ----

  static long add(Ticket ticket) {
    long user = NEXT.getAndIncrement();
    TICKETS.put(user, ticket);
    return user;
  }

  static long add(NotificationHandler handler) {
    long user = NEXT.getAndIncrement();
    HANDLERS.put(user, handler);
    return user;
  }

  static long addWatcher(ServiceWatcher watcher) {
    long user = NEXT.getAndIncrement();
    WATCHERS.put(user, watcher);
    return user;
  }

  static void removeWatcher(long user) {
    WATCHERS.remove(user);
  }

  static void removeTicket(long user) {
    TICKETS.remove(user);
  }

  static void removeHandler(long user) {
    HANDLERS.remove(user);
  }

  /** The number of tickets, handlers and watchers that may still be called. */
  static int waiting() {
    return TICKETS.size() + HANDLERS.size() + WATCHERS.size();
  }

  // ---- Where callbacks run ----

  /**
   * Runs an action that must not run inside a callback, because it waits for the thread of the
   * callbacks. The action runs at once, or, inside a callback, in a thread of its own.
   */
  static void outside(Runnable action) {
    if (RUNNING.get() == null) {
      action.run();
    } else {
      Thread closer = new Thread(action, "ripc-closer");
      closer.setDaemon(true);
      closer.start();
    }
  }

  /**
   * Closes a guard, and wakes the threads inside until they have left. Returns false if it is
   * closed already.
   *
   * @param isBusy whether a thread that is not inside still works
   * @param wake ends one wait
   */
  static boolean close(Guard guard, BooleanSupplier isBusy, Runnable wake) {
    if (!guard.tryEnter()) return false;
    if (!guard.close()) {
      guard.leave();
      return false;
    }
    outside(
        () -> {
          // Ends one wait after the other: one interrupt ends one wait.
          while (guard.inside() > 1 || isBusy.getAsBoolean()) {
            wake.run();
            LockSupport.parkNanos(CLOSE_PAUSE);
            // An interrupted thread does not park, but must still close the guard.
            Thread.yield();
          }
          guard.leave();
        });
    return true;
  }

  /** Runs code that must not wait for this thread. Throws nothing. */
  static void run(Runnable body) {
    RUNNING.set(true);
    try {
      body.run();
    } catch (Throwable thrown) {
      // No exception may leave a function that native code has called.
      Uncaught.tell(thrown);
    } finally {
      RUNNING.remove();
    }
  }

  private static List<ByteBuffer> copies(long items, int count) {
    NativeBinding binding = Binding.get();
    List<ByteBuffer> copies = new ArrayList<>(count);
    ByteBuffer views = binding.view(items, (long) count * View.BYTES);
    for (int at = 0; at < views.capacity(); at += View.BYTES) {
      byte[] copy = new byte[(int) views.getLong(at + View.SIZE)];
      if (copy.length != 0) binding.view(views.getLong(at + View.DATA), copy.length).get(copy);
      copies.add(ByteBuffer.wrap(copy).asReadOnlyBuffer());
    }
    return copies;
  }

  private static final class Visit {
    private final LongConsumer visitor;
    private Throwable thrown;

    Visit(LongConsumer visitor) {
      this.visitor = visitor;
    }

    void to(long found) {
      if (thrown != null) return;
      try {
        visitor.accept(found);
      } catch (RuntimeException | Error problem) {
        thrown = problem;
      }
    }
  }

  /** Calls {@code body} with a user number whose visits go to {@code visitor}, in this thread. */
  static void visit(LongConsumer visitor, LongConsumer body) {
    Visit visit = new Visit(visitor);
    long user = NEXT.getAndIncrement();
    VISITS.put(user, visit);
    try {
      body.accept(user);
    } finally {
      VISITS.remove(user);
    }
    if (visit.thrown instanceof Error error) throw error;
    if (visit.thrown instanceof RuntimeException problem) throw problem;
  }
}
