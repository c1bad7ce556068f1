// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
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
import org.libripc.internal.Spares;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * All streams of one service: receives its messages, gives each to its stream, and runs the
 * resulting tasks in threads of an executor ({@link ReceivingThreads}).
 *
 * <p>Owns the service from start to stop. Any thread.
 */
final class Multiplexer implements TaskSource {
  private static final Logger LOG = LoggerFactory.getLogger(Multiplexer.class);
  private static final int FILLER_BYTES = 64;
  // What a return buffer that is offered with a message takes of its size.
  private static final int OFFER_BYTES = 64;
  // After this many messages received in a row, the streams that wait for room are checked too.
  private static final int ROOM_EVERY = 64;
  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(20);
  private static final long END_MILLIS = 5000;
  private static final long LATER_NANOS = TimeUnit.MILLISECONDS.toNanos(10);

  private record Key(ServiceId peer, int number) {}

  /** Answers that were written into return buffers. */
  final LongAdder returned = new LongAdder();

  /** Bytes that were copied into separate memory. */
  final LongAdder copied = new LongAdder();

  /** Messages that are reused. */
  final Spares<Outgoing> messages = new Spares<>(Outgoing::new);

  final TicketPoller poller;
  final UnackedWrites unacked;
  final ReceivingThreads threads;
  final Guests guests;
  final Service service;
  final StreamOptions options;
  final StreamExecutor executor;
  final Admission admission;
  private final long spinNanos;
  private final Map<Key, ByteStream> streams = new ConcurrentHashMap<>();
  private final Map<ServiceId, Set<ByteStream>> roomWaiters = new ConcurrentHashMap<>();
  private final ResetQueue resets = new ResetQueue(this);
  private final Queue<Runnable> refused = new ConcurrentLinkedQueue<>(); // by the executor
  private final RateLimitedLog warnings = new RateLimitedLog(LOG);
  // A random start: a server may still have streams of a dead process with the same name.
  private final AtomicInteger nextNumber = new AtomicInteger(ThreadLocalRandom.current().nextInt());
  private final RegisteredBuffer filler;
  private final ByteBuffer fillerBytes;
  private final RipcSelector selector;
  private final RipcSelector.Key key;
  private final AtomicBoolean closing = new AtomicBoolean();
  private volatile boolean closed;
  private int sinceRoom; // used by the thread that takes tasks
  private final AdaptiveSpin spin = new AdaptiveSpin(); // likewise
  private boolean near; // used by it too: the last message came over shared memory

  /** Takes over the service, and begins to receive. */
  Multiplexer(Service service, StreamServiceBuilder settings, StreamExecutor executor) {
    this.service = service;
    this.executor = executor;
    options = settings.options;
    admission =
        new Admission(
            this,
            settings.acceptor,
            settings.access,
            settings.peerAccess,
            settings.maxStreams,
            settings.accepting);
    // A longer wait sleeps, and the event of an arriving message would then wake another thread as
    // well.
    spinNanos = Math.min(options.spinNanos(), service.ripc().spinNanos());
    threads = new ReceivingThreads(this, executor);
    guests = new Guests(threads, this);
    poller = new TicketPoller(executor);
    unacked = new UnackedWrites(service, executor);
    service.lending(true);
    filler = service.ripc().lease(FILLER_BYTES);
    fillerBytes = filler.buffer().put(new byte[FILLER_BYTES]).flip();
    selector = RipcSelector.open();
    key = selector.register(service, null);
    threads.start();
  }

  /** Ends all streams; waits for written bytes as long as the other sides keep taking them. */
  void close() {
    if (!closing.compareAndSet(false, true)) return;
    List<Message> unanswered = admission.end();
    for (ByteStream each : streams.values()) each.stop();
    unacked.await(options.lingerMillis());
    threads.end();
    try {
      if (!threads.awaitEnd(END_MILLIS)) {
        LOG.warn("The threads that receive for {} do not end: a handler holds one", service);
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    unanswered.forEach(Message::close);
    closed = true;
    selector.close();
    service.close();
    filler.release();
    runRefused();
  }

  // ---- For streams ----

  Ripc ripc() {
    return service.ripc();
  }

  Collection<ByteStream> streams() {
    return streams.values();
  }

  /** False from the moment the end begins. */
  boolean isOpen() {
    return !closing.get();
  }

  void execute(Runnable task) {
    try {
      executor.execute(task);
    } catch (RejectedExecutionException full) {
      refused(task);
    }
  }

  /** Runs a task that somebody waits for, even while this ends. */
  void deliver(Runnable task) {
    if (closing.get()) {
      task.run();
    } else {
      execute(task);
    }
  }

  /** The item of a filler message: no bytes of the stream. */
  ByteBuffer filler() {
    return fillerBytes.duplicate();
  }

  // Never 0.
  int nextNumber() {
    return nextNumber.updateAndGet(number -> number == -1 ? 1 : number + 1);
  }

  /**
   * Returns null if there is no room: {@link Outbound#room} is called when there may be some.
   *
   * @param request the request that the message replies to; null: none
   */
  Ticket send(ByteStream from, Outgoing message, Message request) {
    Ticket ticket =
        request == null
            ? service.trySend(from.peer(), message)
            : service.tryReply(request, message);
    if (ticket != null) return ticket;
    roomWaiters.compute(
        from.peer(),
        (peer, waiters) -> {
          Set<ByteStream> all = waiters == null ? ConcurrentHashMap.newKeySet() : waiters;
          all.add(from);
          return all;
        });
    key.requestRoom(from.peer());
    threads.endGuest(); // the guest would consume the event
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
    long most = Math.max(0, service.shortLimit(peer, GatherList.MOST + 1) - OFFER_BYTES);
    int limit = (int) Math.min(most, options.shortLimit());
    return withoutLoss ? limit : -limit;
  }

  /** False if there is a stream with that name. */
  boolean add(ByteStream stream) {
    return streams.putIfAbsent(new Key(stream.peer(), stream.number()), stream) == null;
  }

  void remove(ByteStream stream) {
    streams.remove(new Key(stream.peer(), stream.number()), stream);
  }

  /** Answers soon for a connection that does not exist. */
  void refuse(ServiceId peer, int number, Frame.Reason reason) {
    resets.add(peer, number, reason);
  }

  // ---- Receiving ----

  @Override
  public Runnable next(boolean patient) {
    boolean spins = patient && maySpin();
    while (threads.isRunning()) {
      try {
        Message message = spins ? service.receive(spinNanos, TimeUnit.NANOSECONDS) : service.poll();
        if (message != null) {
          if (spins) {
            spin.hit();
          } else {
            spin.waited();
          }
          Runnable task = taken(message);
          if (!roomWaiters.isEmpty() && ++sinceRoom >= ROOM_EVERY) roomForAll();
          if (task != null) return task;
        } else if (spins) {
          spin.missed();
          spins = false; // a poll, after which events report messages
        } else {
          // The poll may have consumed the event that reported room.
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
    } catch (Throwable problem) {
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
    executor.schedule(look, LATER_NANOS, TimeUnit.NANOSECONDS);
  }

  @Override
  public void refused(Runnable task) {
    LOG.debug("the executor is full");
    refused.add(task);
    if (closed) {
      runRefused();
    } else {
      executor.schedule(this::tryAgain, PAUSE_NANOS, TimeUnit.NANOSECONDS);
    }
  }

  private void tryAgain() {
    Runnable task = refused.poll();
    if (task != null) execute(task);
  }

  // After the end the executor may stay full and its timer stopped, but readers and writers wait.
  private void runRefused() {
    for (Runnable task = refused.poll(); task != null; task = refused.poll())
      CachedThreads.newThread(task).start();
  }

  private void stopped(RipcException problem) {
    switch (problem.status()) {
      case INTERRUPTED -> LOG.debug("interrupted", problem);
      case CLOSED, FENCED -> {
        threads.end();
        LOG.warn("{} ends: {}", service, problem.getMessage());
        IOException cause = new IOException(problem);
        for (ByteStream each : streams.values()) each.fail(cause);
      }
      default -> failed(problem);
    }
  }

  // The problem may last, such as a lack of memory, or messages that are not given back.
  private void failed(Throwable problem) {
    warnings.warn("Receiving for " + service + " failed", problem);
    LockSupport.parkNanos(PAUSE_NANOS);
  }

  private void roomAt(ServiceId peer) {
    Set<ByteStream> waiters = roomWaiters.remove(peer);
    if (waiters != null) for (ByteStream each : waiters) each.out().room();
  }

  private void roomForAll() {
    sinceRoom = 0;
    new ArrayList<>(roomWaiters.keySet()).forEach(this::roomAt);
  }

  private Runnable taken(Message message) {
    service.settle(); // frees the memory of copies before the next copy needs it
    return dispatchSafely(message);
  }

  // Except over shared memory, a message that comes during a spin wakes another thread anyway. A
  // guest would have to wait until the spin ends.
  private boolean maySpin() {
    return spinNanos > 0 && near && spin.maySpin() && roomWaiters.isEmpty() && !guests.isExpected();
  }

  // No single message may end the receiving.
  private Runnable dispatchSafely(Message message) {
    Key key = new Key(message.source(), message.tag());
    try {
      return dispatch(message);
    } catch (Throwable problem) {
      warnings.warn("A message from " + key.peer + " to " + service + " failed", problem);
      message.close();
      refuse(key.peer, key.number, Frame.Reason.ABORTED);
      ByteStream stream = streams.get(key);
      if (stream != null) stream.fail(new IOException("A message failed", problem));
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
    ByteStream stream = streams.get(new Key(message.source(), message.tag()));
    if (stream != null && !stream.isFromPeer(message)) {
      warnings.warn("A message to " + service + " is not of the peer of its stream", null);
      message.close();
      return null;
    }
    if (stream != null && frame.type() != Frame.Type.OPEN) {
      near = !stream.out().needsProbes();
      return stream.received(message, frame);
    }
    if (stream == null && frame.type() == Frame.Type.OPEN) {
      return admission.open(message, frame);
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
