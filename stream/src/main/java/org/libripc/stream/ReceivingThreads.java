// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.Condition;
import org.libripc.internal.AutoLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The threads of an executor that receive for a service. One at a time takes what has come, and
 * runs the task that follows from it. Before it runs one that may block, it makes sure that another
 * thread goes on. Mostly that one waits for the next event already, so the kernel wakes it if there
 * is one. Then no thread has to wake another for a message. A timer finds a task that blocks
 * although it says that it does not: then another thread takes over.
 *
 * <p>A thread of somebody else that waits for what one of the tasks will do can receive meanwhile,
 * as a guest ({@link Guests}). Then the event wakes that thread, and no other one.
 *
 * <p>Any thread.
 */
@SuppressWarnings("try") // locks
final class ReceivingThreads {
  private static final Logger LOG = LoggerFactory.getLogger(ReceivingThreads.class);

  /** One thread that takes the next event, and one for the event after it. */
  static final int MOST_WAITING = 2;

  private final RateLimitedLog warnings = new RateLimitedLog(LOG);
  private final TaskSource source;
  private final StreamExecutor executor;
  private final AutoLock lock = new AutoLock();
  private final Condition changed = lock.newCondition();
  private volatile boolean running;
  private volatile Guests.Guest guest; // written with the lock held
  private final AtomicBoolean watching = new AtomicBoolean(); // for threads that do not come back
  // All below: guarded by the lock.
  private Guests.Guest away; // the guest that was at the last look
  private long awayTurn;
  private Thread alone; // runs a task that should not block, and nobody else takes what comes
  private long aloneTurn;
  private long aloneTurnSeen; // at the last look
  private Runnable usual; // the task that a guest has taken last: mostly that of one connection
  private Runnable ahead; // taken, for whoever comes next
  private boolean empty; // the source had nothing, and no event has come since
  private int waiting;
  private boolean woken; // one of those that wait, and it has not come yet
  private int starting;

  ReceivingThreads(TaskSource source, StreamExecutor executor) {
    this.source = source;
    this.executor = executor;
  }

  /** Begins with one thread. */
  void start() {
    try (AutoLock l = lock.held()) {
      running = true;
      empty = false;
      ++starting;
    }
    try {
      executor.execute(this::runStarted);
    } catch (RejectedExecutionException full) {
      source.refused(this::runStarted);
    }
  }

  /** Whether {@link #end} was not called yet. */
  boolean isRunning() {
    return running;
  }

  /** No thread takes anything any more. Does not wait for any. */
  void end() {
    running = false;
    source.wake();
    endGuest();
  }

  /** Waits until, after {@link #end}, no thread takes or waits. False if that lasts too long. */
  boolean awaitEnd(long millis) throws InterruptedException {
    long left = TimeUnit.MILLISECONDS.toNanos(millis);
    if (!lock.tryLock(left, TimeUnit.NANOSECONDS)) return false;
    try {
      while (isUsed() && left > 0) left = changed.awaitNanos(left);
      return !isUsed();
    } finally {
      lock.unlock();
    }
  }

  private boolean isUsed() {
    return waiting > 0 || guest != null;
  }

  private void runStarted() {
    try (AutoLock l = lock.held()) {
      --starting;
    }
    for (Runnable task = take(); task != null; task = take()) run(task);
  }

  /** Runs a task, and what follows from it. */
  void run(Runnable task) {
    Runnable next = task;
    while (next != null) {
      runSafely(next);
      next = next instanceof Completion completion ? firstOf(completion.following()) : null;
    }
  }

  // What the calling thread goes on with; null if that is nothing.
  private Runnable firstOf(List<Runnable> tasks) {
    if (tasks.isEmpty()) return null;
    Runnable first = tasks.get(0);
    Runnable here;
    try (AutoLock l = lock.held()) {
      here = securely(first);
    }
    for (Runnable each : tasks) if (each != first || here == null) executeBlocking(each);
    return here;
  }

  // A thread that receives does not end with the task of one connection.
  private void runSafely(Runnable task) {
    try {
      task.run();
    } catch (Exception | AssertionError | LinkageError problem) {
      warnings.warn("A task of a connection has failed", problem);
    }
  }

  /** What the calling thread is to run; null: it is needed no longer. */
  private Runnable take() {
    for (; ; ) {
      Runnable elsewhere = null;
      try (AutoLock l = lock.held()) {
        if (alone == Thread.currentThread()) alone = null;
        if (!running) return null;
        Runnable task = guest == null ? next(true) : null;
        if (task != null) {
          Runnable here = securely(task);
          if (here != null) return here;
          elsewhere = task;
        } else {
          if (isEnough()) return null;
          ++waiting;
        }
      }
      if (elsewhere != null) {
        executeBlocking(elsewhere);
      } else {
        waitForEvent();
      }
    }
  }

  private Runnable next(boolean patient) {
    Runnable task = ahead;
    ahead = null;
    if (task == null && !empty) {
      task = source.next(patient);
      empty = task == null;
    }
    return task;
  }

  // Whether enough wait for events. Where threads are few, they have other things to do.
  private boolean isEnough() {
    int enough = executor.isLowOnThreads() ? 1 : MOST_WAITING;
    return waiting - (woken ? 1 : 0) + starting >= enough;
  }

  /** How to run a task in this thread; null if that would keep it from taking what comes. */
  private Runnable securely(Runnable task) {
    if (alone == Thread.currentThread()) alone = null;
    return switch (StreamTask.of(task)) {
      case NEVER -> alone(task);
      case POSSIBLE -> othersGoOn() ? task : null;
      case AVOIDABLE -> othersGoOn() ? task : alone(((StreamTask) task)::runWithoutBlocking);
    };
  }

  // Not all that is said not to block keeps to that.
  private Runnable alone(Runnable task) {
    alone = Thread.currentThread();
    ++aloneTurn;
    watch();
    return task;
  }

  /** Whether another thread takes what is there or comes. */
  private boolean othersGoOn() {
    ahead = next(false);
    if (ahead == null && waiting > 0 || woken || starting > 0) return true;
    if (waiting > 0) {
      woken = true;
      source.wake();
      return true;
    }
    if (!executor.tryExecute(this::runStarted)) return false;
    ++starting;
    return true;
  }

  private void waitForEvent() {
    source.await();
    try (AutoLock l = lock.held()) {
      --waiting;
      woken = false;
      empty = false;
      if (running) return;
      changed.signalAll();
      if (waiting > 0) source.wake();
    }
  }

  // ---- Guests ----

  /** Ends the wait of the guest, if there is one: it looks again. */
  void endGuest() {
    if (guest != null) source.endReceive();
  }

  /** The guest; null if there is none. */
  Guests.Guest guest() {
    return guest;
  }

  /** Whether a task is the one that a guest has taken last. For the guest. */
  boolean isUsual(Runnable task) {
    return task == usual;
  }

  /** Has the calling thread as the guest; false if it cannot be. */
  boolean enter(Guests.Guest own) {
    try (AutoLock l = lock.held()) {
      // Who waits for events takes them again when the guest has left.
      if (!running || guest != null || ahead != null || waiting - (woken ? 1 : 0) <= 0)
        return false;
      if (!source.pause()) return false;
      guest = own;
      return true;
    }
  }

  /** The place is the others' again; what the guest is to run. */
  Runnable leave(Guests.Guest own, Runnable task) {
    Runnable here = null;
    try (AutoLock l = lock.held()) {
      if (guest != own) return null; // it was taken from it while it was away
      guest = null;
      if (task != null) usual = task;
      empty = false;
      if (othersGoOn()) here = task;
      source.resume();
      changed.signalAll();
    }
    if (task != null && here == null) executeBlocking(task);
    return here;
  }

  // Nobody takes what comes meanwhile, but if it lasts: whoever sends, or runs a task, may wait for
  // what nobody would receive.
  void goAway(Guests.Guest own) {
    own.turns = own.turns + 1;
    own.isAway = true;
    watch();
  }

  /** Whether it still is the guest. */
  boolean comeBack(Guests.Guest own, CompletableFuture<?> answer) {
    try (AutoLock l = lock.held()) {
      own.answer = answer;
      own.isAway = false;
      return guest == own;
    }
  }

  private void watch() {
    if (!watching.get() && watching.compareAndSet(false, true)) source.later(this::look);
  }

  // Where a thread does not come back from one look to the next, others take what comes.
  private void look() {
    watching.set(false);
    try (AutoLock l = lock.held()) {
      Guests.Guest present = guest != null && guest.isAway ? guest : null;
      if (present != null && present == away && present.turns == awayTurn) leave(present, null);
      away = present;
      if (present != null) awayTurn = present.turns;
      if (alone != null && aloneTurn == aloneTurnSeen && othersGoOn()) alone = null;
      aloneTurnSeen = aloneTurn;
      if (running && (present != null || alone != null)) watch();
    }
  }

  @Override
  public String toString() {
    // Without the lock: whoever asks may be looking for who holds it.
    return String.format(
        "ReceivingThreads@%x{waiting=%d,starting=%d,alone=%s,guest=%s%s}",
        hashCode(), waiting, starting, alone, guest != null, running ? "" : ",ended");
  }

  private void executeBlocking(Runnable task) {
    try {
      executor.executeBlocking(task);
    } catch (RejectedExecutionException full) {
      source.refused(task);
    }
  }
}
