// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;
import org.libripc.Ticket;

/**
 * What is to be done without the lock of an {@link Outbound}, soon: a ticket that has failed calls
 * back at once, and the reader's lock comes before that one.
 *
 * <p>Any thread.
 */
final class Afterwards {
  private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();

  /** Has a ticket call back with its problem, or null. */
  void whenComplete(Ticket ticket, Consumer<Throwable> action) {
    tasks.add(() -> ticket.whenComplete((nothing, problem) -> action.accept(problem)));
  }

  /** Does it, without the lock. */
  void run() {
    for (Runnable next = tasks.poll(); next != null; next = tasks.poll()) next.run();
  }
}
