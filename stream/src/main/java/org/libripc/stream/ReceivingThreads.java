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
 * The threads of an executor that receive for a service. One thread at a time takes what has come,
 * and runs the resulting task. Before it runs a task that may block, it makes sure that another
 * thread goes on receiving. Mostly that thread already waits for the next event, so the kernel
 * wakes it, and no thread has to wake another for a message. A timer finds tasks that block
 * although they say that they do not; then another thread takes over.
 *
 * <p>An application thread that waits for the result of a task can receive meanwhile, as a guest
 * ({@link Guests}). Then the event wakes that thread, and no other one.
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
  private final AtomicBoolean watching = new AtomicBoolean(); // for threads that do not return
  // All below: guarded by the lock.
  private Guests.Guest away; // the guest that was away at the last look
  private long awayTurn;
  private Thread alone; // runs a task that should not block, while no other thread receives
  private long aloneTurn;
  private long aloneTurnSeen; // at the last look
  private Runnable usual; // the guest's last task: mostly that of one connection
  private Runnable ahead; // taken already, for the next thread that comes
  private boolean empty; // the source had nothing, and no event has come since
  private int waiting;
  private boolean woken; // a waiting thread was woken and has not come yet
  private int starting;

  ReceivingThreads(TaskSource source, StreamExecutor executor) {
    this.source = source;
    this.executor = executor;
  }

  /** Starts with one thread. */
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

  /** Stops all threads from taking tasks. Does not wait for them. */
  void end() {
    running = false;
    source.wake();
    endGuest();
  }

  /**
   * After {@link #end}: waits until no thread takes tasks or waits. False if that takes too long.
   */
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

  // The task that the calling thread goes on with; null if there is none.
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

  // A failing task of one connection must not end a receiving thread.
  private void runSafely(Runnable task) {
    try {
      task.run();
    } catch (Exception | AssertionError | LinkageError problem) {
      warnings.warn("A task of a connection has failed", problem);
    }
  }

  /** The task that the calling thread is to run; null: the thread is no longer needed. */
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

  // Whether enough threads wait for events. If threads are few, they have other things to do.
  private boolean isEnough() {
    int enough = executor.isLowOnThreads() ? 1 : MOST_WAITING;
    return waiting - (woken ? 1 : 0) + starting >= enough;
  }

  /** How to run a task in this thread; null if nobody would then receive. */
  private Runnable securely(Runnable task) {
    if (alone == Thread.currentThread()) alone = null;
    return switch (StreamTask.of(task)) {
      case NEVER -> alone(task);
      case POSSIBLE -> othersGoOn() ? task : null;
      case AVOIDABLE -> othersGoOn() ? task : alone(((StreamTask) task)::runWithoutBlocking);
    };
  }

  // Some tasks block although they say that they do not.
  private Runnable alone(Runnable task) {
    alone = Thread.currentThread();
    ++aloneTurn;
    watch();
    return task;
  }

  /** Whether another thread takes the messages that are there or will come. */
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
    try {
      source.await();
    } finally {
      waited();
    }
  }

  private void waited() {
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

  /** Ends the wait of the guest, if there is one, so that it looks again. */
  void endGuest() {
    if (guest != null) source.endReceive();
  }

  /** The guest; null if there is none. */
  Guests.Guest guest() {
    return guest;
  }

  /** Whether a task is the one that a guest has taken last. Called by the guest. */
  boolean isUsual(Runnable task) {
    return task == usual;
  }

  /** Makes the calling thread the guest; false if that is impossible. */
  boolean enter(Guests.Guest own) {
    try (AutoLock l = lock.held()) {
      // The threads that wait for events take them again when the guest has left.
      if (!running || guest != null || ahead != null || waiting - (woken ? 1 : 0) <= 0)
        return false;
      if (!source.pause()) return false;
      guest = own;
      return true;
    }
  }

  /** Gives the place back to the other threads. Returns the task that the guest is to run. */
  Runnable leave(Guests.Guest own, Runnable task) {
    Runnable here = null;
    try (AutoLock l = lock.held()) {
      if (guest != own) return null; // it lost its place while it was away
      guest = null;
      if (task != null) usual = task;
      empty = false;
      // An executor would not run what follows a task that does not block.
      if (othersGoOn() || StreamTask.of(task) == StreamTask.Blocking.NEVER) here = task;
      source.resume();
      changed.signalAll();
    }
    if (task != null && here == null) executeBlocking(task);
    return here;
  }

  // Nobody receives meanwhile, unless it lasts: a thread that sends, or runs a task, may wait for a
  // message that nobody would receive.
  void goAway(Guests.Guest own) {
    own.turns = own.turns + 1;
    own.isAway = true;
    watch();
  }

  /** Returns whether the thread still is the guest. */
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

  // If a thread does not return between two looks, other threads receive.
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
    // Without the lock: the caller may be trying to find out which thread holds it.
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
