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
 * A service, as its context, windows and messages have it. It does not refer to its {@link
 * Service}: so the garbage collector finds that the application has lost that one.
 */
final class ServiceCore {
  private final RipcCore ripc;
  private final NativeBinding binding;
  private final long handle;
  private final Guard guard = new Guard(() -> Callbacks.outside(this::destroy));
  private final Waiting waiting;
  private final Receiver receiver;
  private final Sender sender;
  // A key has the service, and its selector has the key.
  private final Set<RipcSelector.Key> keys =
      Collections.newSetFromMap(Collections.synchronizedMap(new WeakHashMap<>()));
  private final ConcurrentHashMap<Notification, Long> notifications = new ConcurrentHashMap<>();
  private volatile Endpoint endpoint; // null: it has no calls
  private ServiceId lastPeer; // only a cache: any thread may put another one here

  /** The context is entered for it already. */
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

  /** After an {@link #enter} for the application, which cannot lose its object before. */
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

  /** To be left afterwards. */
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
