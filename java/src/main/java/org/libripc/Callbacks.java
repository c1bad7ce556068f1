// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import com.sun.jna.CallbackThreadInitializer;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import org.libripc.internal.Layout.View;

/**
 * What native code calls. There is one function of each kind; the `user` argument says for whom, as
 * a number that is never used again, so that a call that comes too late finds nobody.
 */
final class Callbacks {
  interface TicketFunction extends Callback {
    void completed(long user, int status);
  }

  interface NotificationFunction extends Callback {
    void notified(long user, long source, long items, long count);
  }

  interface VisitorFunction extends Callback {
    void visit(long user, long found);
  }

  private static final AtomicLong NEXT = new AtomicLong(1);
  private static final Map<Long, Ticket> TICKETS = new ConcurrentHashMap<>();
  private static final Map<Long, NotificationHandler> HANDLERS = new ConcurrentHashMap<>();
  private static final ThreadLocal<Boolean> RUNNING = new ThreadLocal<>();

  // Native code has their addresses: they are never collected.
  private static final TicketFunction TICKET = Callbacks::ticketCompleted;
  private static final NotificationFunction NOTIFICATION = Callbacks::notificationCame;
  static final long TICKET_ADDRESS = addressOf(TICKET);
  static final long NOTIFICATION_ADDRESS = addressOf(NOTIFICATION);

  private Callbacks() {}

  private static long addressOf(Callback function) {
    // A responder thread stays known to the JVM until it ends, and does not keep the JVM from
    // ending.
    Native.setCallbackThreadInitializer(
        function, new CallbackThreadInitializer(true, false, "ripc-responder"));
    return Pointer.nativeValue(CallbackReference.getFunctionPointer(function));
  }

  // ---- Who is called ----

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

  static void removeTicket(long user) {
    TICKETS.remove(user);
  }

  static void removeHandler(long user) {
    HANDLERS.remove(user);
  }

  /** How many tickets and handlers may still be called. */
  static int waiting() {
    return TICKETS.size() + HANDLERS.size();
  }

  // ---- Where callbacks run ----

  /**
   * Runs an action that must not run inside a callback, because it waits for the thread that
   * callbacks run in: at once, or if this is a callback in a thread of its own.
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

  private static void run(Runnable body) {
    RUNNING.set(true);
    try {
      body.run();
    } catch (Throwable thrown) {
      // Nothing may leave a function that native code has called.
      Thread thread = Thread.currentThread();
      thread.getUncaughtExceptionHandler().uncaughtException(thread, thrown);
    } finally {
      RUNNING.remove();
    }
  }

  private static void ticketCompleted(long user, int status) {
    Ticket ticket = TICKETS.remove(user);
    if (ticket != null) run(() -> ticket.completed(status));
  }

  private static void notificationCame(long user, long source, long items, long count) {
    NotificationHandler handler = HANDLERS.get(user);
    if (handler == null) return;
    run(
        () -> {
          List<ByteBuffer> copies = new ArrayList<>((int) count);
          Pointer views = new Pointer(items);
          for (int index = 0; index < count; ++index) {
            long at = (long) index * View.BYTES;
            long size = views.getLong(at + View.SIZE);
            byte[] copy =
                size == 0
                    ? new byte[0]
                    : new Pointer(views.getLong(at + View.DATA)).getByteArray(0, (int) size);
            copies.add(ByteBuffer.wrap(copy).asReadOnlyBuffer());
          }
          handler.notified(ServiceId.of(source), copies);
        });
  }

  /**
   * Calls {@code body} with the address of a function that gives each address it is called with to
   * {@code visitor}.
   */
  static void visit(LongConsumer visitor, LongConsumer body) {
    RuntimeException[] thrown = {null};
    VisitorFunction function =
        (user, found) -> {
          if (thrown[0] != null) return;
          try {
            visitor.accept(found);
          } catch (RuntimeException problem) {
            thrown[0] = problem;
          }
        };
    body.accept(Pointer.nativeValue(CallbackReference.getFunctionPointer(function)));
    java.lang.ref.Reference.reachabilityFence(function);
    if (thrown[0] != null) throw thrown[0];
  }
}
