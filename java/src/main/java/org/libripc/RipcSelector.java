// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Cleaner;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.libripc.internal.AutoLock;
import org.libripc.internal.Epoll;
import org.libripc.internal.Guard;
import org.libripc.internal.InterruptHook;
import org.libripc.internal.Leaks;
import org.libripc.internal.LibC;
import org.libripc.internal.NativeBlock;

/**
 * Waits for many services with one thread: for messages, and for room at peers that had none. It is
 * like {@link java.nio.channels.Selector}, with one difference. A selected service is to be
 * received from until {@link Service#poll} returns null. Only then is it selected again for what
 * comes later.
 *
 * <p>One thread selects at a time, a second one gets an {@link IllegalStateException}; any thread
 * may register, cancel, {@link #wakeup} and close, and any number may {@link #awaitEvent}.
 */
public final class RipcSelector implements AutoCloseable {
  /** A service's registration with a selector. Any thread. */
  @SuppressWarnings("try") // locks
  public static final class Key {
    private final RipcSelector selector;
    private final Service service;
    private final Object attachment;
    private final long number;
    private final int descriptor;
    private final AutoLock lock = new AutoLock();
    // Guarded by the lock.
    private final Set<ServiceId> wanted = new LinkedHashSet<>();
    private List<ServiceId> writable = List.of();
    private boolean readable;
    private boolean watched; // the selector has the service's descriptor
    private boolean cancelled;

    private Key(
        RipcSelector selector, Service service, Object attachment, long number, int descriptor) {
      this.selector = selector;
      this.service = service;
      this.attachment = attachment;
      this.number = number;
      this.descriptor = descriptor;
    }

    /** The service. */
    public Service service() {
      return service;
    }

    /** What was given at the registration; may be null. */
    public Object attachment() {
      return attachment;
    }

    /** Whether the last select found that there may be messages: receive until there are none. */
    public boolean isReadable() {
      try (AutoLock held = lock.held()) {
        return readable;
      }
    }

    /**
     * The peers, of those asked for, that the last select found to have room (or to be gone: the
     * send will tell).
     */
    public List<ServiceId> writable() {
      try (AutoLock held = lock.held()) {
        return writable;
      }
    }

    /** Has the selector wait for room at a peer, once, after a send found none. */
    public void requestRoom(ServiceId peer) {
      try (AutoLock held = lock.held()) {
        wanted.add(peer);
      }
      service
          .core()
          .call(
              service,
              () ->
                  service.core().binding().requestRoomEvent(service.core().handle(), peer.value()));
    }

    /**
     * Makes the selector report nothing of the service until {@link #resume}. A thread may wait in
     * {@link Service#receive} instead, and no other thread is woken for what comes. Nor is room
     * reported meanwhile. If the registration has ended, this does nothing.
     */
    public void pause() {
      control(true);
    }

    /** Ends a {@link #pause}; what has come meanwhile and was not received is reported now. */
    public void resume() {
      control(false);
    }

    private void control(boolean pauses) {
      if (!selector.guard.tryEnter()) return;
      try {
        try (AutoLock held = lock.held()) {
          if (!watched) return;
          if (pauses) {
            selector.epoll.pause(descriptor, number);
          } else {
            selector.epoll.resume(descriptor, number);
          }
        }
      } finally {
        selector.guard.leave();
      }
    }

    /** Whether it is registered no longer: cancelled, or the service or the selector was closed. */
    public boolean isCancelled() {
      try (AutoLock held = lock.held()) {
        return cancelled;
      }
    }

    /** Ends the registration. */
    public void cancel() {
      try (AutoLock held = lock.held()) {
        cancelled = true;
      }
      selector.keys.remove(number);
      // Of a service that is being closed, its end does the rest.
      if (!service.core().guard().tryEnter()) return;
      try {
        unwatch();
      } finally {
        service.core().guard().leave();
      }
    }

    /** While the service is registered: its descriptor may be anybody's afterwards. */
    void end() {
      try (AutoLock held = lock.held()) {
        cancelled = true;
      }
      selector.keys.remove(number);
      unwatch();
    }

    private void watch() {
      try (AutoLock held = lock.held()) {
        selector.epoll.add(descriptor, number);
        watched = true;
      }
    }

    private void unwatch() {
      try (AutoLock held = lock.held()) {
        if (watched) selector.unwatch(descriptor);
        watched = false;
      }
      service.core().keys().remove(this);
    }

    /**
     * The peers, of those asked for, that have room now (or are gone: the send will tell); each is
     * asked for no longer. Does not wait, and takes no event.
     */
    public List<ServiceId> findRoom() {
      service.core().enter();
      try {
        return takeRoom();
      } finally {
        service.core().guard().leave();
      }
    }

    private List<ServiceId> takeRoom() {
      try (AutoLock held = lock.held()) {
        if (wanted.isEmpty()) return List.of();
        List<ServiceId> found = new ArrayList<>();
        for (ServiceId peer : wanted) if (mayHaveRoom(peer)) found.add(peer);
        found.forEach(wanted::remove);
        return List.copyOf(found);
      }
    }

    private boolean update(boolean ready) {
      try (AutoLock held = lock.held()) {
        if (ready) service.core().receiver().hasMore();
        readable = service.core().receiver().mayHaveMore();
        writable = takeRoom();
        return readable || !writable.isEmpty();
      }
    }

    // A receive may have taken the event that told of room.
    private boolean hasRoom() {
      try (AutoLock held = lock.held()) {
        for (ServiceId peer : wanted) if (mayHaveRoom(peer)) return true;
        return false;
      }
    }

    private boolean mayHaveRoom(ServiceId peer) {
      int status = service.core().binding().waitRoom(service.core().handle(), peer.value(), 0);
      if (status == Status.INTERRUPTED.code()) {
        status = service.core().binding().waitRoom(service.core().handle(), peer.value(), 0);
        service.core().waiting().passOn();
      }
      if (status != Status.TIMEOUT.code()) return true;
      return service.core().binding().requestRoomEvent(service.core().handle(), peer.value()) != 0;
    }
  }

  private static final long PASS_ON = 1_000_000;

  private final Epoll epoll;
  private final Guard guard;
  private final Cleaner.Cleanable cleanable;
  private final InterruptHook hook = new InterruptHook(this::wakeup);
  private final Map<Long, Key> keys = new ConcurrentHashMap<>();
  private final AtomicLong nextKey = new AtomicLong(1);
  private final AtomicBoolean selecting = new AtomicBoolean();
  private final Set<Thread> waiting = ConcurrentHashMap.newKeySet();

  /** What the garbage collector's net needs to know. */
  private record Net(Guard guard, Throwable trace) implements Runnable {
    @Override
    public void run() {
      if (guard.close()) Leaks.report("RipcSelector", "", trace);
    }
  }

  private RipcSelector() {
    epoll = new Epoll();
    guard = new Guard(epoll::close);
    cleanable = Leaks.CLEANER.register(this, new Net(guard, Leaks.trace()));
  }

  /**
   * Opens one.
   *
   * @throws RipcException {@link Status#NO_DESCRIPTORS} if it needs more descriptors than there are
   */
  public static RipcSelector open() {
    try {
      return new RipcSelector();
    } catch (LibC.Failure problem) {
      throw RipcException.of(
          Status.NO_DESCRIPTORS,
          "A selector needs two descriptors (" + problem.getMessage() + "): raise `ulimit -n`.");
    }
  }

  /**
   * Registers a service, of any context. It may be registered with several selectors, once with
   * each.
   *
   * @throws RipcException {@link Status#LIMIT} if the system watches no more descriptors
   */
  public Key register(Service service, Object attachment) {
    enter();
    try {
      NativeBlock descriptor = new NativeBlock(4);
      service.core().enter();
      try {
        int status =
            service.core().binding().serviceDescriptor(service.core().handle(), descriptor.address);
        RipcException.check(status);
        Key key =
            new Key(
                this, service, attachment, nextKey.getAndIncrement(), descriptor.bytes.getInt(0));
        add(key);
        return key;
      } finally {
        service.core().guard().leave();
      }
    } finally {
      guard.leave();
    }
  }

  private void add(Key key) {
    keys.put(key.number, key);
    key.service.core().keys().add(key);
    try {
      key.watch();
    } catch (LibC.Failure problem) {
      key.end();
      if (problem.number() == LibC.EEXIST)
        throw new IllegalStateException("This service is registered here already.");
      throw RipcException.of(
          Status.LIMIT,
          "The service cannot be watched ("
              + problem.getMessage()
              + "): raise fs.epoll.max_user_watches.");
    }
    // It was closed meanwhile, and may not have seen this one.
    if (!guard.isClosed()) return;
    key.end();
    throw closed();
  }

  private void unwatch(int descriptor) {
    if (!guard.tryEnter()) return;
    try {
      epoll.remove(descriptor);
    } finally {
      guard.leave();
    }
  }

  /** The registrations. */
  public Set<Key> keys() {
    return Set.copyOf(keys.values());
  }

  /** Waits until a service is ready, or {@link #wakeup}. */
  public List<Key> select() throws InterruptedException {
    return select(-1);
  }

  /** Waits for a time. The ready ones; empty if there are none, also after {@link #wakeup}. */
  public List<Key> select(long time, TimeUnit unit) throws InterruptedException {
    return select(Math.max(0, unit.toNanos(time)));
  }

  private List<Key> select(long nanos) throws InterruptedException {
    if (!selecting.compareAndSet(false, true))
      throw new IllegalStateException("Another thread selects: one at a time may.");
    try {
      return selectAlone(nanos);
    } finally {
      selecting.set(false);
    }
  }

  private List<Key> selectAlone(long nanos) throws InterruptedException {
    boolean atOnce = false;
    for (Key key : keys.values()) {
      if (!key.service.core().guard().tryEnter()) continue;
      try {
        atOnce |= key.service.core().receiver().mayHaveMore() || key.hasRoom();
      } finally {
        key.service.core().guard().leave();
      }
    }
    Set<Long> ready = await(atOnce ? 0 : nanos);
    List<Key> found = new ArrayList<>();
    for (Key key : keys.values()) {
      if (!key.service.core().guard().tryEnter()) continue;
      try {
        if (key.update(ready.contains(key.number))) found.add(key);
      } finally {
        key.service.core().guard().leave();
      }
    }
    return found;
  }

  /**
   * Waits until something may have come for a service, or {@link #wakeup}, and reports nothing. Any
   * number of threads may be in it: each event ends one of these waits. So whoever returns receives
   * from the services until there are no messages, and looks for room ({@link Key#findRoom}) after
   * that.
   */
  public void awaitEvent() throws InterruptedException {
    await(-1);
  }

  private Set<Long> await(long nanos) throws InterruptedException {
    if (Thread.interrupted()) throw new InterruptedException();
    Set<Long> ready;
    boolean others = false;
    enter();
    waiting.add(Thread.currentThread());
    try {
      if (guard.isClosed()) throw closed(); // whoever wakes all may have looked before
      hook.enter();
      try {
        ready = epoll.await(nanos);
      } finally {
        hook.leave();
      }
    } finally {
      waiting.remove(Thread.currentThread());
      others = passOn();
      guard.leave();
    }
    if (guard.isClosed()) throw closed();
    if (Thread.interrupted()) throw new InterruptedException();
    // Else this thread might be the next to be woken again.
    if (others) LockSupport.parkNanos(PASS_ON);
    return ready;
  }

  // It may have been woken for another thread, or all are to be. Whether it was for another.
  private boolean passOn() {
    boolean interrupted = false;
    for (Thread each : waiting) interrupted |= each.isInterrupted();
    if (interrupted || guard.isClosed() && !waiting.isEmpty()) epoll.wake();
    return interrupted;
  }

  /** Ends a select or a wait that is running, or the next one. */
  public void wakeup() {
    if (!guard.tryEnter()) return;
    try {
      epoll.wake();
    } finally {
      guard.leave();
    }
  }

  private void enter() {
    if (!guard.tryEnter()) throw closed();
  }

  private static RipcException closed() {
    return new RipcException.Closed("This selector was closed: open another one.");
  }

  /**
   * Ends it: selects and waits that are running throw {@link RipcException.Closed}. The services go
   * on.
   */
  @Override
  public void close() {
    if (!guard.tryEnter()) return;
    for (Key key : keys.values()) key.cancel();
    guard.close();
    epoll.wake();
    guard.leave();
    cleanable.clean();
  }
}
