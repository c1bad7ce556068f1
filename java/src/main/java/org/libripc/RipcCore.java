// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Reference;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.libripc.internal.Guard;
import org.libripc.internal.NativeBinding;
import org.libripc.internal.NativeBlock;

/**
 * The part of a context that its services and their messages refer to. It does not refer to its
 * {@link Ripc}, so that the garbage collector finds a Ripc that the application has lost.
 */
final class RipcCore {
  // Contexts that are closed, but live on for buffers that the garbage collector has not found yet.
  private static final int MOST_LINGERING = 4;
  private static final AtomicInteger LINGERING = new AtomicInteger();

  private final NativeBinding binding;
  private final long handle;
  private final long spinNanos;
  private final Guard guard = new Guard(() -> Callbacks.outside(this::destroy));
  private final BufferPool pool;
  private final Registrations registrations = new Registrations(this);
  private final Set<ServiceCore> services = ConcurrentHashMap.newKeySet();
  private final Set<NativeMessage> handles = ConcurrentHashMap.newKeySet();
  private final Set<ServiceWatch> watches = ConcurrentHashMap.newKeySet();
  private final Map<Long, ReceiveWindow> windows = new ConcurrentHashMap<>();
  private final AtomicLong nextWindow = new AtomicLong(1);
  // The key is the address of the name in native code and the user, which together identify a peer.
  private final Map<PeerKey, Peer> peers = new ConcurrentHashMap<>();
  private volatile boolean lost;

  RipcCore(NativeBinding binding, long handle, long spinNanos, long keptPoolBytes) {
    this.binding = binding;
    this.handle = handle;
    this.spinNanos = spinNanos;
    pool = new BufferPool(this, keptPoolBytes);
  }

  // ---- Peers ----

  private record PeerKey(long identity, long user) {}

  // Messages often come from the same peer as the last one.
  private record LastPeer(long identity, long user, Peer peer) {}

  private volatile LastPeer lastPeer = new LastPeer(0, 0, Peer.UNKNOWN);

  private static final long NO_USER = -1;

  /**
   * The peer that a record names.
   *
   * @param identity address of its name, valid as long as the context lives
   * @param user negative: none
   */
  Peer peerAt(long identity, long user) {
    LastPeer last = lastPeer;
    if (last.identity == identity && last.user == user) return last.peer;
    if (identity == 0) return Peer.UNKNOWN;
    Peer found = findPeer(identity, user);
    lastPeer = new LastPeer(identity, user, found);
    return found;
  }

  // A member or user that comes by two paths has a name at two addresses.
  private final Map<Peer, Peer> uniquePeers = new ConcurrentHashMap<>();

  private Peer findPeer(long identity, long user) {
    PeerKey key = new PeerKey(identity, user < 0 ? NO_USER : user);
    Peer known = peers.get(key);
    if (known != null) return known;
    if (!guard.tryEnter()) throw new IllegalStateException("The context is closed.");
    try {
      OptionalInt number = user < 0 ? OptionalInt.empty() : OptionalInt.of((int) user);
      Peer made = new Peer(binding.text(identity), number);
      Peer peer = uniquePeers.computeIfAbsent(made, same -> same);
      peers.put(key, peer);
      return peer;
    } finally {
      guard.leave();
    }
  }

  // ---- Windows ----

  interface PostCall {
    int post(long data, long size, long id);
  }

  interface WithdrawCall {
    int withdraw(long id, long count);
  }

  void postAt(Object owner, ReceiveWindow window, PostCall call) {
    long id = nextWindow.getAndIncrement();
    long landing = window.posting(this, owner, id);
    windows.put(id, window);
    int status = call.post(landing, window.size(), id);
    if (status != 0) {
      windows.remove(id);
      window.returned();
      throw RipcException.ofLastCall(status);
    }
  }

  boolean withdrawAt(Object owner, ReceiveWindow window, WithdrawCall call) {
    long id = window.idAt(Objects.requireNonNull(owner));
    if (id == 0) return false;
    NativeBlock count = new NativeBlock(8);
    RipcException.check(call.withdraw(id, count.address));
    if (count.bytes.getLong(0) == 0) return false;
    windowReturned(id);
    return true;
  }

  /**
   * Gives the windows that are posted here back to the application, except those in use. A closed
   * context must not refer to them, because their memory keeps the context.
   */
  void withdrawAll() {
    for (ReceiveWindow window : windows.values()) {
      if (window.idAt(this) != 0)
        withdrawAt(this, window, (id, count) -> binding.contextWindowWithdraw(handle, id, count));
    }
  }

  /** Called last by a service, when it is no longer registered. Leaves the context. */
  void gone(ServiceCore service) {
    services.remove(service);
    // The windows it received into are no longer in use.
    if (guard.isClosed()) withdrawAll();
    guard.leave();
  }

  /** The window with this number, whose message was received. The caller has to return it. */
  ReceiveWindow windowFilled(long id) {
    return windows.remove(id);
  }

  private void windowReturned(long id) {
    ReceiveWindow window = windows.remove(id);
    if (window != null) window.returned();
  }

  void windowsReturnedOf(Object owner) {
    windows.forEach(
        (id, window) -> {
          if (window.idAt(owner) == id) windowReturned(id);
        });
  }

  // ---- For the other classes ----

  NativeBinding binding() {
    return binding;
  }

  long handle() {
    return handle;
  }

  Guard guard() {
    return guard;
  }

  BufferPool pool() {
    return pool;
  }

  Registrations registrations() {
    return registrations;
  }

  Set<ServiceCore> registered() {
    return services;
  }

  /** Closes it if the end of the context may have missed it. The caller has entered the context. */
  void add(NativeMessage message) {
    handles.add(message);
    if (guard.isClosed()) message.close();
  }

  Set<NativeMessage> handles() {
    return handles;
  }

  Set<ServiceWatch> watches() {
    return watches;
  }

  long spinNanos() {
    return spinNanos;
  }

  /** Enters the context; the caller has to leave it afterwards. */
  void enter() {
    if (!guard.tryEnter()) throw closed();
  }

  /**
   * Leaves after an {@link #enter} for the application; the argument keeps its object from being
   * lost before.
   */
  void leave(Ripc by) {
    guard.leave();
    Reference.reachabilityFence(by);
  }

  static RipcException closed() {
    return new RipcException.Closed("This context was closed: open another one.");
  }

  // ---- The end ----

  /** For the garbage collector's net: false if it is closed already. */
  boolean lose() {
    if (!guard.isClosed()) lost = true;
    return close();
  }

  /** Whether the context was lost, and so everything that was closed with it. */
  boolean isLost() {
    return lost;
  }

  /** False if it is closed already. */
  boolean close() {
    if (!guard.tryEnter()) return false;
    if (!guard.close()) {
      guard.leave();
      return false;
    }
    LINGERING.incrementAndGet();
    Callbacks.outside(
        () -> {
          for (ServiceWatch watch : watches) watch.close();
          for (ServiceCore service : services) service.close();
          for (NativeMessage each : handles) each.close();
          withdrawAll();
          pool.close();
          registrations.close();
          guard.leave();
        });
    return true;
  }

  private void destroy() {
    binding.contextDestroy(handle);
    windowsReturnedOf(this);
    LINGERING.decrementAndGet();
  }

  static void collectLingering() {
    for (int attempt = 0; attempt < 20 && LINGERING.get() > MOST_LINGERING; ++attempt) {
      if (attempt % 10 == 0) System.gc();
      try {
        Thread.sleep(5);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        return;
      }
    }
  }
}
