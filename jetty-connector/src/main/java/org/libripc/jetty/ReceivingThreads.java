// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import org.eclipse.jetty.util.VirtualThreads;
import org.eclipse.jetty.util.thread.Invocable;
import org.eclipse.jetty.util.thread.ThreadPool;
import org.eclipse.jetty.util.thread.TryExecutor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The threads that receive for a service, of an executor. One at a time takes what has come, and
 * runs the task that follows from it. Before it runs one that may block, it makes sure that another
 * thread goes on. Mostly that one waits for the next event already, so the kernel wakes it if there
 * is one, and no thread has to wake another for a message. A task that says that it does not block
 * and does so all the same is found out by a timer: then another thread takes over.
 *
 * <p>A thread of somebody else that waits for what one of the tasks will do can receive meanwhile,
 * as a guest ({@link #await}): then the event wakes that thread, and no other one.
 *
 * <p>Any thread.
 */
final class ReceivingThreads {
  private static final Logger LOG = LoggerFactory.getLogger(ReceivingThreads.class);

  /** One thread that takes the next event, and one for the event after it. */
  static final int MOST_WAITING = 2;

  // After so many looks without an await() in between no guest is expected.
  private static final int GUESTS_GONE = 1000;

  // After several threads were in await() at once, so many calls make no guest.
  private static final int CROWD = 64;

  private static final class Guest {
    final Thread thread = Thread.currentThread();
    volatile CompletableFuture<?> answer; // what it waits for; null while it sends that
    // It holds the place and does not receive: it sends, or runs a task. Ends with the lock held.
    volatile boolean isAway;
    volatile long turns; // of being away
  }

  private final Warnings warnings = new Warnings(LOG);
  private final TaskSource source;
  private final Executor executor;
  private final Executor taskExecutor;
  private final TryExecutor tryExecutor;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private volatile boolean running;
  private final AtomicInteger awaiting = new AtomicInteger(); // threads in await()
  private volatile int crowd; // calls of await() that still make no guest
  // Looks for something to take since an await() began.
  private volatile int sinceAwait = GUESTS_GONE;
  private volatile Guest guest; // written with the lock held
  private final AtomicBoolean watching = new AtomicBoolean(); // for threads that do not come back
  // All below: guarded by the lock.
  private Guest away; // the guest that was at the last look
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

  ReceivingThreads(TaskSource source, Executor executor) {
    this.source = source;
    this.executor = executor;
    tryExecutor = TryExecutor.asTryExecutor(executor);
    Executor virtual = VirtualThreads.getVirtualThreadsExecutor(executor);
    taskExecutor = virtual == null ? executor : virtual;
  }

  /** Begins with one thread. */
  void start() {
    lock.lock();
    try {
      running = true;
      empty = false;
      ++starting;
    } finally {
      lock.unlock();
    }
    execute(executor, this::runStarted);
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
    lock.lock();
    --starting;
    lock.unlock();
    for (Runnable task = take(); task != null; task = take()) run(task);
  }

  private void run(Runnable task) {
    Runnable next = task;
    while (next != null) {
      runSafely(next);
      next = next instanceof Step step ? firstOf(step.following()) : null;
    }
  }

  // What the calling thread goes on with; null if that is nothing.
  private Runnable firstOf(List<Runnable> tasks) {
    if (tasks.isEmpty()) return null;
    Runnable first = tasks.get(0);
    Runnable here;
    lock.lock();
    try {
      here = securely(first);
    } finally {
      lock.unlock();
    }
    for (Runnable each : tasks) if (each != first || here == null) execute(taskExecutor, each);
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
      lock.lock();
      try {
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
      } finally {
        lock.unlock();
      }
      if (elsewhere != null) {
        execute(taskExecutor, elsewhere);
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
    boolean few = executor instanceof ThreadPool pool && pool.isLowOnThreads();
    return waiting - (woken ? 1 : 0) + starting >= (few ? 1 : MOST_WAITING);
  }

  /** How to run a task in this thread; null if that would keep it from taking what comes. */
  private Runnable securely(Runnable task) {
    if (alone == Thread.currentThread()) alone = null;
    return switch (Invocable.getInvocationType(task)) {
      case NON_BLOCKING -> alone(task);
      case BLOCKING -> othersGoOn() ? task : null;
      case EITHER -> othersGoOn() ? task : alone(() -> Invocable.invokeNonBlocking(task));
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
    if (!tryExecutor.tryExecute(this::runStarted)) return false;
    ++starting;
    return true;
  }

  private void waitForEvent() {
    source.await();
    lock.lock();
    try {
      --waiting;
      woken = false;
      empty = false;
      if (running) return;
      changed.signalAll();
      if (waiting > 0) source.wake();
    } finally {
      lock.unlock();
    }
  }

  // ---- Guests ----

  /**
   * Whether a guest will want the place soon. For the thread that is in {@link TaskSource#next},
   * once for each time.
   */
  boolean isGuestExpected() {
    int looks = sinceAwait;
    if (looks >= GUESTS_GONE) return false;
    sinceAwait = looks + 1;
    return !isCrowded();
  }

  /**
   * Waits for this. Meanwhile the calling thread receives, and runs what follows, if it is the only
   * one that waits so, and somebody else can go on.
   */
  <T> T await(CompletableFuture<T> answer, long nanos)
      throws InterruptedException, ExecutionException, TimeoutException {
    awaiting.incrementAndGet();
    try {
      return await(answer, nanos, answer.isDone() ? null : enter(answer));
    } finally {
      awaiting.decrementAndGet();
    }
  }

  /**
   * The same for the answer to something that this sends. Nobody else takes what comes while it
   * does, but if that lasts.
   */
  <T> T await(Supplier<CompletableFuture<T>> sending, long nanos)
      throws InterruptedException, ExecutionException, TimeoutException {
    awaiting.incrementAndGet();
    Guest own = enter(null);
    try {
      if (own != null) goAway(own);
      CompletableFuture<T> answer = Objects.requireNonNull(sending.get());
      Guest staying = own != null && comeBack(own, answer) ? own : null;
      own = null;
      return await(answer, nanos, staying);
    } finally {
      if (own != null) leave(own, null);
      awaiting.decrementAndGet();
    }
  }

  private <T> T await(CompletableFuture<T> answer, long nanos, Guest first)
      throws InterruptedException, ExecutionException, TimeoutException {
    long began = System.nanoTime();
    long left = nanos;
    Guest own = first;
    if (own != null) answer.whenComplete((value, problem) -> completed(answer));
    while (own != null) {
      boolean stays = false;
      Runnable task = null;
      try {
        // Whoever completes it after this look ends the wait.
        if (canReceive(answer, left)) {
          task = source.receive(left);
          if (task != null && task == usual) {
            task = null;
            stays = runInside(own, answer, usual);
          }
          left = nanos - (System.nanoTime() - began);
          stays &= canReceive(answer, left);
        }
      } finally {
        if (!stays) task = leave(own, task);
      }
      if (stays) continue;
      if (task != null) run(task);
      left = nanos - (System.nanoTime() - began);
      own = canReceive(answer, left) ? enter(answer) : null;
    }
    return answer.get(Math.max(0, left), TimeUnit.NANOSECONDS);
  }

  // The next part of an answer mostly comes soon: others would be woken for it meanwhile.
  private boolean runInside(Guest own, CompletableFuture<?> answer, Runnable task) {
    goAway(own);
    run(task);
    return comeBack(own, answer);
  }

  private boolean canReceive(CompletableFuture<?> answer, long left) {
    return !answer.isDone() && left > 0 && running;
  }

  private void completed(CompletableFuture<?> answer) {
    Guest present = guest;
    if (present == null || present.answer != answer) return;
    if (present.thread != Thread.currentThread()) source.endReceive();
  }

  /** Ends the wait of the guest, if there is one: it looks again. */
  void endGuest() {
    if (guest != null) source.endReceive();
  }

  // Of several each would mostly receive for others, and the threads of the pool are quicker at
  // that.
  private boolean isCrowded() {
    return awaiting.get() > 1 || crowd > 0;
  }

  /** The calling thread becomes the guest; null if it cannot. */
  private Guest enter(CompletableFuture<?> answer) {
    sinceAwait = 0;
    if (isCrowded()) {
      crowd = awaiting.get() > 1 ? CROWD : crowd - 1;
      return null;
    }
    lock.lock();
    try {
      // Who waits for events takes them again when the guest has left.
      if (!running || guest != null || ahead != null || waiting - (woken ? 1 : 0) <= 0) return null;
      if (!source.pause()) return null;
      guest = new Guest();
      guest.answer = answer;
      return guest;
    } finally {
      lock.unlock();
    }
  }

  /** The place is the others' again; what the guest is to run. */
  private Runnable leave(Guest own, Runnable task) {
    Runnable here = null;
    lock.lock();
    try {
      if (guest != own) return null; // it was taken from it while it was away
      guest = null;
      if (task != null) usual = task;
      empty = false;
      if (othersGoOn()) here = task;
      source.resume();
      changed.signalAll();
    } finally {
      lock.unlock();
    }
    if (task != null && here == null) execute(taskExecutor, task);
    return here;
  }

  // Nobody takes what comes meanwhile, but if it lasts: whoever sends, or runs a task, may wait for
  // what nobody would receive.
  private void goAway(Guest own) {
    own.turns = own.turns + 1;
    own.isAway = true;
    watch();
  }

  /** Whether it still is the guest. */
  private boolean comeBack(Guest own, CompletableFuture<?> answer) {
    lock.lock();
    try {
      own.answer = answer;
      own.isAway = false;
      return guest == own;
    } finally {
      lock.unlock();
    }
  }

  private void watch() {
    if (!watching.get() && watching.compareAndSet(false, true)) source.later(this::look);
  }

  // Where a thread does not come back from one look to the next, others take what comes.
  private void look() {
    watching.set(false);
    lock.lock();
    try {
      Guest present = guest != null && guest.isAway ? guest : null;
      if (present != null && present == away && present.turns == awayTurn) leave(present, null);
      away = present;
      if (present != null) awayTurn = present.turns;
      if (alone != null && aloneTurn == aloneTurnSeen && othersGoOn()) alone = null;
      aloneTurnSeen = aloneTurn;
      if (running && (present != null || alone != null)) watch();
    } finally {
      lock.unlock();
    }
  }

  @Override
  public String toString() {
    // Without the lock: whoever asks may be looking for who holds it.
    return String.format(
        "ReceivingThreads@%x{waiting=%d,starting=%d,alone=%s,guest=%s%s}",
        hashCode(), waiting, starting, alone, guest != null, running ? "" : ",ended");
  }

  private void execute(Executor threads, Runnable task) {
    try {
      threads.execute(task);
    } catch (RejectedExecutionException full) {
      source.refused(task);
    }
  }
}
