// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.eclipse.jetty.util.component.ContainerLifeCycle;
import org.eclipse.jetty.util.component.DumpableCollection;
import org.eclipse.jetty.util.thread.Scheduler;
import org.eclipse.jetty.util.thread.ThreadPoolBudget;
import org.libripc.Message;
import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.Ripc;
import org.libripc.RipcException;
import org.libripc.RipcSelector;
import org.libripc.Service;
import org.libripc.ServiceId;
import org.libripc.Ticket;
import org.libripc.ViewKind;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * All stream connections of one service: receives its messages, gives each to its connection, and
 * runs what follows in threads of an executor ({@link ReceivingThreads}).
 *
 * <p>Owns the service from start to stop. Any thread.
 */
final class Multiplexer extends ContainerLifeCycle implements TaskSource {
  private static final Logger LOG = LoggerFactory.getLogger(Multiplexer.class);
  private static final int FILLER_BYTES = 64;
  // Messages received in a row after which those who wait for room are looked at all the same.
  private static final int ROOM_EVERY = 64;
  // Of a file: large enough that a message costs little beside it, and several fit into a window.
  private static final int MOST_PIECE = 256 << 10;
  private static final int PIECES_OF_WINDOW = 4;
  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(20);
  private static final long LATER_NANOS = TimeUnit.MILLISECONDS.toNanos(10);

  /** Who takes new connections. */
  interface Acceptor {
    /**
     * What is to be run to accept one, or null, with the message closed and answered. From the
     * thread that takes.
     */
    Runnable open(Message message, Frame frame);
  }

  private record Key(ServiceId peer, int number) {}

  private final Service service;
  private final StreamOptions options;
  private final Executor executor;
  private final Scheduler scheduler;
  private final Acceptor acceptor;
  private final long lookNanos;
  private final Map<Key, RipcEndPoint> endPoints = new ConcurrentHashMap<>();
  private final Map<ServiceId, Set<RipcEndPoint>> roomWaiters = new ConcurrentHashMap<>();
  private final Refusals refusals = new Refusals(this);
  private final Messages messages = new Messages();
  private final Warnings warnings = new Warnings(LOG);
  private final ReceivingThreads threads;
  private final Lookout lookout;
  private final Travelling travelling;
  private ThreadPoolBudget.Lease lease;
  private RegisteredBuffer filler;
  private ByteBuffer fillerBytes;
  private RipcSelector selector;
  private RipcSelector.Key key;
  private int sinceRoom; // of whoever takes
  private final Pace pace = new Pace(); // likewise
  private boolean near; // likewise: the last message came over shared memory
  private final LongAdder returnedParts = new LongAdder();
  private final LongAdder copiedBytes = new LongAdder();

  /** Takes over the service. Null as the acceptor: nobody may connect to it. */
  Multiplexer(
      Service service,
      StreamOptions options,
      Executor executor,
      Scheduler scheduler,
      Acceptor acceptor) {
    this.service = service;
    this.options = options;
    this.executor = executor;
    this.scheduler = scheduler;
    this.acceptor = acceptor;
    // What waits for longer sleeps, and an event of what comes would wake another thread besides.
    lookNanos = Math.min(options.spinNanos(), service.ripc().spinNanos());
    threads = new ReceivingThreads(this, executor);
    lookout = new Lookout(scheduler);
    travelling = new Travelling(service, scheduler);
  }

  @Override
  protected void doStart() throws Exception {
    lease = ThreadPoolBudget.leaseFrom(executor, this, ReceivingThreads.MOST_WAITING);
    service.lending(true);
    filler = service.ripc().lease(FILLER_BYTES);
    fillerBytes = filler.buffer().put(new byte[FILLER_BYTES]).flip();
    selector = RipcSelector.open();
    key = selector.register(service, null);
    super.doStart();
    threads.start();
  }

  /** Ends all connections; waits for what was written, as long as it is being taken. */
  @Override
  protected void doStop() throws Exception {
    if (selector == null) { // its start has failed
      if (lease != null) lease.close();
      return;
    }
    for (RipcEndPoint each : endPoints.values()) each.close();
    travelling.await(options.lingerMillis());
    threads.end();
    if (!threads.awaitEnd(options.lingerMillis())) {
      LOG.warn("The threads that receive for {} do not end: a handler holds one", service);
    }
    super.doStop();
    selector.close();
    service.close();
    filler.release();
    lease.close();
  }

  // ---- For connections ----

  Service service() {
    return service;
  }

  Ripc ripc() {
    return service.ripc();
  }

  ReceivingThreads threads() {
    return threads;
  }

  Scheduler scheduler() {
    return scheduler;
  }

  Lookout lookout() {
    return lookout;
  }

  int window() {
    return options.window();
  }

  int shortLimit() {
    return options.shortLimit();
  }

  int pieceBytes() {
    return Math.max(
        options.shortLimit(), Math.min(MOST_PIECE, options.window() / PIECES_OF_WINDOW));
  }

  int copyLimit() {
    return options.copyLimit();
  }

  void execute(Runnable task) {
    try {
      executor.execute(task);
    } catch (RejectedExecutionException full) {
      LOG.debug("the executor is full", full);
      executeLater(task);
    }
  }

  /** Runs what somebody waits for, also while this stops. */
  void deliver(Runnable task) {
    if (isRunning() && !isStopping()) {
      execute(task);
    } else {
      task.run();
    }
  }

  /** A task that the executor has refused: somebody waits for what it does. */
  void executeLater(Runnable task) {
    if (isStopped()) return;
    scheduler.schedule(() -> execute(task), PAUSE_NANOS, TimeUnit.NANOSECONDS);
  }

  int returnBytes() {
    return options.returnBytes();
  }

  /** An answer has come that lies in a return buffer. */
  void partReturned() {
    returnedParts.increment();
  }

  long returnedParts() {
    return returnedParts.sum();
  }

  /** Bytes of a writer go by a copy in memory of their own. */
  void copied(long bytes) {
    copiedBytes.add(bytes);
  }

  long copiedBytes() {
    return copiedBytes.sum();
  }

  RegisteredBuffer lease(int size) {
    return service.ripc().lease(size);
  }

  /** An empty message, until {@link #giveBack}. */
  Outgoing outgoing() {
    return messages.take();
  }

  void giveBack(Outgoing message) {
    messages.giveBack(message);
  }

  /** A byte that stands for itself. */
  ByteBuffer filler() {
    return fillerBytes.duplicate();
  }

  /** What was written and not taken yet. */
  Travelling travelling() {
    return travelling;
  }

  /**
   * Null if there is no room: {@link Outbound#room} comes when there may be some.
   *
   * @param request what the message is the reply to; null: to nothing
   */
  Ticket send(RipcEndPoint from, Outgoing message, Message request) {
    Ticket ticket =
        request == null
            ? service.trySend(from.peer(), message)
            : service.tryReply(request, message);
    if (ticket != null) return ticket;
    roomWaiters.compute(
        from.peer(),
        (peer, waiters) -> {
          Set<RipcEndPoint> all = waiters == null ? ConcurrentHashMap.newKeySet() : waiters;
          all.add(from);
          return all;
        });
    key.requestRoom(from.peer());
    threads.endGuest(); // it would take the event
    return null;
  }

  /**
   * How a peer is reached.
   *
   * @return the most bytes of a short message; negative if short messages may get lost
   */
  int shortLimit(ServiceId peer) {
    Ripc ripc = service.ripc();
    boolean withoutLoss = ripc.findPath(peer).transport().equals("shm");
    int limit = (int) Math.min(service.shortLimit(peer, 8), options.shortLimit());
    return withoutLoss ? limit : -limit;
  }

  /** False if there is one of that name. */
  boolean add(RipcEndPoint endPoint) {
    return endPoints.putIfAbsent(new Key(endPoint.peer(), endPoint.number()), endPoint) == null;
  }

  void remove(RipcEndPoint endPoint) {
    endPoints.remove(new Key(endPoint.peer(), endPoint.number()), endPoint);
  }

  int connections() {
    return endPoints.size();
  }

  @Override
  public void dump(Appendable out, String indent) throws IOException {
    dumpObjects(out, indent, threads, new DumpableCollection("connections", endPoints.values()));
  }

  /** Answers for a connection that there is not, soon. */
  void refuse(ServiceId peer, int number, Frame.Reason reason) {
    refusals.add(peer, number, reason);
  }

  // ---- Receiving ----

  @Override
  public String toString() {
    return String.format("Multiplexer@%x{%s,%s}", hashCode(), service, getState());
  }

  @Override
  public Runnable next(boolean patient) {
    boolean looks = patient && mayLook();
    while (threads.isRunning()) {
      try {
        Message message = looks ? service.receive(lookNanos, TimeUnit.NANOSECONDS) : service.poll();
        if (message != null) {
          if (looks) {
            pace.seen();
          } else {
            pace.came();
          }
          Runnable task = taken(message);
          if (!roomWaiters.isEmpty() && ++sinceRoom >= ROOM_EVERY) roomForAll();
          if (task != null) return task;
        } else if (looks) {
          pace.inVain();
          looks = false; // a poll, after which events tell
        } else {
          // The poll may have taken the event that told of it.
          if (!roomWaiters.isEmpty()) key.findRoom().forEach(this::roomAt);
          return null;
        }
      } catch (InterruptedException interrupted) {
        LOG.debug("interrupted", interrupted);
      } catch (RipcException problem) {
        if (threads.isRunning()) stopped(problem);
      } catch (Throwable problem) {
        failed(problem);
      }
    }
    return null;
  }

  @Override
  public void await() {
    try {
      selector.awaitEvent();
    } catch (InterruptedException interrupted) {
      LOG.debug("interrupted", interrupted);
    } catch (RipcException problem) {
      if (threads.isRunning()) failed(problem);
    }
  }

  @Override
  public void wake() {
    selector.wakeup();
  }

  @Override
  public boolean pause() {
    if (!roomWaiters.isEmpty()) return false;
    key.pause();
    return true;
  }

  @Override
  public void resume() {
    key.resume();
  }

  @Override
  public Runnable receive(long nanos) throws InterruptedException {
    if (!roomWaiters.isEmpty()) return null;
    try {
      Message message = service.receive(nanos, TimeUnit.NANOSECONDS);
      return message == null ? null : taken(message);
    } catch (RipcException problem) {
      if (threads.isRunning()) stopped(problem);
      return null;
    }
  }

  @Override
  public void endReceive() {
    service.interrupt();
  }

  @Override
  public void later(Runnable look) {
    scheduler.schedule(look, LATER_NANOS, TimeUnit.NANOSECONDS);
  }

  @Override
  public void refused(Runnable task) {
    LOG.debug("the executor is full");
    executeLater(task);
  }

  private void stopped(RipcException problem) {
    switch (problem.status()) {
      case INTERRUPTED -> LOG.debug("interrupted", problem);
      case CLOSED, FENCED -> {
        threads.end();
        LOG.warn("{} ends: {}", service, problem.getMessage());
        IOException cause = new IOException(problem);
        for (RipcEndPoint each : endPoints.values()) each.fail(cause);
      }
      default -> failed(problem);
    }
  }

  // What is wrong may last: memory, messages that are not given back.
  private void failed(Throwable problem) {
    warnings.warn("Receiving for " + service + " failed", problem);
    LockSupport.parkNanos(PAUSE_NANOS);
  }

  private void roomAt(ServiceId peer) {
    Set<RipcEndPoint> waiters = roomWaiters.remove(peer);
    if (waiters != null) for (RipcEndPoint each : waiters) each.out().room();
  }

  private void roomForAll() {
    sinceRoom = 0;
    new ArrayList<>(roomWaiters.keySet()).forEach(this::roomAt);
  }

  private Runnable taken(Message message) {
    service.settle(); // memory that was copied into comes back in time for the next copy
    return dispatchSafely(message);
  }

  // What comes during a look wakes another thread all the same, but over shared memory. A guest
  // would have to wait until its end.
  private boolean mayLook() {
    return lookNanos > 0
        && near
        && pace.mayLook()
        && roomWaiters.isEmpty()
        && !threads.isGuestExpected();
  }

  // Nothing that one message causes may end the receiving.
  private Runnable dispatchSafely(Message message) {
    Key key = new Key(message.source(), message.tag());
    try {
      return dispatch(message);
    } catch (Throwable problem) {
      warnings.warn("A message from " + key.peer + " to " + service + " failed", problem);
      message.close();
      refuse(key.peer, key.number, Frame.Reason.ABORTED);
      RipcEndPoint endPoint = endPoints.get(key);
      if (endPoint != null) endPoint.fail(new IOException("A message failed", problem));
      return null;
    }
  }

  private Runnable dispatch(Message message) {
    Frame frame = null;
    if (message.itemCount() > 0 && message.kind(0) == ViewKind.SHORT) {
      frame = Frame.decode(message.item(0));
    }
    if (frame == null) {
      refuse(message.source(), message.tag(), Frame.Reason.VERSION);
      message.close();
      return null;
    }
    RipcEndPoint endPoint = endPoints.get(new Key(message.source(), message.tag()));
    if (endPoint != null && frame.type() != Frame.Type.OPEN) {
      near = !endPoint.out().needsProbes();
      return endPoint.received(message, frame);
    }
    if (acceptor != null && endPoint == null && frame.type() == Frame.Type.OPEN) {
      return acceptor.open(message, frame);
    }
    boolean answered =
        switch (frame.type()) {
          case ACCEPT, DATA, CREDIT -> true;
          default -> false;
        };
    if (answered) {
      refuse(message.source(), message.tag(), Frame.Reason.UNKNOWN);
    }
    message.close();
    return null;
  }
}
