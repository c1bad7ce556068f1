// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.libripc.internal.Guard;
import org.libripc.internal.NativeBinding;

/**
 * The part of a service that its context, windows and messages refer to. It does not refer to its
 * {@link Service}, so that the garbage collector finds a Service that the application has lost.
 */
final class ServiceCore {
  private final RipcCore ripc;
  private final NativeBinding binding;
  private final long handle;
  private final Guard guard = new Guard(() -> Callbacks.outside(this::destroy));
  private final Waiting waiting;
  private final Receiver receiver;
  private final Sender sender;
  // Weak, because a key refers to the service, and its selector to the key.
  private final Set<RipcSelector.Key> keys =
      Collections.newSetFromMap(Collections.synchronizedMap(new WeakHashMap<>()));
  private final ConcurrentHashMap<Notification, Long> notifications = new ConcurrentHashMap<>();
  private volatile Endpoint endpoint; // null: it has no calls
  private ServiceId lastPeer; // only a cache: any thread may put another one here

  /** The caller has entered the context for it already. */
  ServiceCore(RipcCore ripc, long handle) {
    this.ripc = ripc;
    this.handle = handle;
    binding = ripc.binding();
    waiting = new Waiting(this);
    receiver = new Receiver(this);
    sender = new Sender(this);
    ripc.registered().add(this);
  }

  interface Call {
    int run();
  }

  void call(Service by, Call body) {
    enter();
    try {
      RipcException.check(body.run());
    } finally {
      leave(by);
    }
  }

  /**
   * Leaves after an {@link #enter} for the application; the argument keeps its object from being
   * lost before.
   */
  void leave(Service by) {
    guard.leave();
    Reference.reachabilityFence(by);
  }

  boolean isClosed() {
    return guard.isClosed();
  }

  RipcCore ripc() {
    return ripc;
  }

  ConcurrentHashMap<Notification, Long> notifications() {
    return notifications;
  }

  Sender sender() {
    return sender;
  }

  /** Enters the service; the caller has to leave it afterwards. */
  void enter() {
    if (!guard.tryEnter()) throw closed();
  }

  static RipcException closed() {
    return new RipcException.Closed("This service was closed: register another one.");
  }

  Guard guard() {
    return guard;
  }

  long handle() {
    return handle;
  }

  NativeBinding binding() {
    return binding;
  }

  Waiting waiting() {
    return waiting;
  }

  Set<RipcSelector.Key> keys() {
    return keys;
  }

  Receiver receiver() {
    return receiver;
  }

  ReturnBuffer[] requestAnswered(long request, long from) {
    return sender.requestAnswered(request, from);
  }

  void endpoint(Endpoint newEndpoint) {
    endpoint = newEndpoint;
  }

  ServiceId idOfPeer(long value) {
    ServiceId known = lastPeer;
    if (known == null || known.value() != value) lastPeer = known = ServiceId.of(value);
    return known;
  }

  // ---- The end ----

  /** False if it is closed already. */
  boolean close() {
    return Callbacks.close(guard, receiver::isBusy, this::wake);
  }

  private void wake() {
    Endpoint calls = endpoint;
    if (calls != null) calls.close();
    binding.interrupt(handle);
  }

  private void destroy() {
    receiver.drop();
    for (RipcSelector.Key key : new ArrayList<>(keys)) key.end();
    binding.serviceUnregister(handle);
    ripc.windowsReturnedOf(this);
    sender.drop();
    notifications.values().forEach(Callbacks::removeHandler);
    ripc.gone(this);
  }
}
