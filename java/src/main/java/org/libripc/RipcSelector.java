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
import org.libripc.internal.AutoLock;
import org.libripc.internal.Epoll;
import org.libripc.internal.Guard;
import org.libripc.internal.InterruptHook;
import org.libripc.internal.Leaks;
import org.libripc.internal.LibC;
import org.libripc.internal.NativeBlock;

/**
 * Waits for many services with one thread: for messages, and for room at peers that had none. It is
 * like {@link java.nio.channels.Selector}, with one difference. Receive from a selected service
 * until {@link Service#poll} returns null; only then is it selected again for later messages.
 *
 * <p>Only one thread selects at a time; a second one gets an {@link IllegalStateException}. Any
 * thread may register, cancel, {@link #wakeup} and close, and any number of threads may {@link
 * #awaitEvent}.
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

    /** The object given at the registration; may be null. */
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
     * The requested peers that the last select found to have room, or to be gone, which a send will
     * show.
     */
    public List<ServiceId> writable() {
      try (AutoLock held = lock.held()) {
        return writable;
      }
    }

    /** Makes the selector wait for room at a peer, once, after a send found none. */
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
     * {@link Service#receive} instead, and messages wake no other thread. Room is not reported
     * meanwhile either. If the registration has ended, this does nothing.
     */
    public void pause() {
      control(true);
    }

    /**
     * Ends a {@link #pause}; messages that have come meanwhile and were not received are reported
     * now.
     */
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

    /**
     * Whether the registration has ended: it was cancelled, or the service or the selector was
     * closed.
     */
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
      // If the service is being closed, its end does the rest.
      if (!service.core().guard().tryEnter()) return;
      try {
        unwatch();
      } finally {
        service.core().guard().leave();
      }
    }

    /**
     * Called while the service is registered: afterwards, its descriptor may belong to anything.
     */
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
     * The requested peers that have room now, or are gone, which a send will show. This ends the
     * requests for them. Does not wait, and consumes no event.
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

    // A receive may have consumed the event that reported room.
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
   * Opens a selector.
   *
   * @throws RipcException {@link Status#NO_DESCRIPTORS} if the process has too few descriptors left
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
   * @throws RipcException {@link Status#LIMIT} if the system cannot watch more descriptors
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
    // close() may have run meanwhile without seeing this key.
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

  /** Waits until a service is ready, or for {@link #wakeup}. */
  public List<Key> select() throws InterruptedException {
    return select(-1);
  }

  /**
   * Waits at most this long. Returns the keys that are ready; empty if none are, also after {@link
   * #wakeup}.
   */
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
   * Waits until something may have come for a service, or for {@link #wakeup}, and reports nothing.
   * Any number of threads may wait here: each event ends one of these waits. So a thread that
   * returns must receive from the services until there are no messages, and then look for room
   * ({@link Key#findRoom}).
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
      if (guard.isClosed()) throw closed(); // the thread that wakes all may have looked before
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
    // Events that were taken are told, because they do not come again; the next wait ends instead.
    if (ready.isEmpty() && Thread.interrupted()) throw new InterruptedException();
    if (others) InterruptHook.letOthersWake();
    return ready;
  }

  // This thread may have been woken for another one, or all threads are to be woken. Returns
  // whether it was for another.
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
   * Closes the selector: selects and waits that are running throw {@link RipcException.Closed}. The
   * services go on.
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
