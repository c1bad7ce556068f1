// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.libripc.internal.Guard;
import org.libripc.internal.Layout;
import org.libripc.internal.NativeBinding;
import org.libripc.internal.NativeBlock;

/**
 * A registered service ID with its receive queue: what sends and receives. Any thread may send, at
 * the same time as others. Receiving is done by one thread at a time; a second one gets an {@link
 * IllegalStateException}.
 *
 * <p>Times of 0 do not wait; {@code receive()} without a time waits for ever.
 */
public final class Service implements AutoCloseable {
  private static final long CLOSE_PAUSE = 1_000_000;

  private final Ripc ripc;
  private final NativeBinding binding;
  private final long handle;
  private final ServiceId id;
  private final String name;
  private final long incarnation;
  private final Guard guard = new Guard(() -> Callbacks.outside(this::destroy));
  private final Waiting waiting;
  private final Receiver receiver;
  private final Sender sender;
  private final Set<RipcSelector.Key> keys = ConcurrentHashMap.newKeySet();
  private final ConcurrentHashMap<Notification, Long> notifications = new ConcurrentHashMap<>();
  private ServiceId lastPeer; // only a cache: any thread may put another one here

  /** The context is entered for it already. */
  Service(Ripc ripc, long handle, String name) {
    this.ripc = ripc;
    this.handle = handle;
    this.name = name;
    binding = ripc.binding();
    id = ServiceId.of(binding.serviceId(handle));
    incarnation = binding.serviceIncarnation(handle);
    waiting = new Waiting(this);
    receiver = new Receiver(this);
    sender = new Sender(this);
    ripc.registered().add(this);
  }

  /** Its ID. */
  public ServiceId id() {
    return id;
  }

  /** Its name; empty if it has none. */
  public String name() {
    return name;
  }

  /** Grows with each registration of the ID. */
  public long incarnation() {
    return incarnation;
  }

  /** The context it belongs to. */
  public Ripc ripc() {
    return ripc;
  }

  /** Whether {@link #close} was called, here or on the context. */
  public boolean isClosed() {
    return guard.isClosed();
  }

  // ---- Send ----

  /**
   * Sends a message to a service, or short items to a group.
   *
   * <p>Short items are gathered during the call. Long items travel until the ticket is complete:
   * memory of the pool may be released before, other direct buffers are kept by the ticket and must
   * not change; heap buffers are copied by this call.
   *
   * @return complete already if all items are short
   * @throws RipcException.NoRoom if the peer has no room: nothing was sent
   * @throws RipcException.TooLarge if the short items are larger than {@link #shortLimit}
   * @throws RipcException {@link Status#NO_SERVICE}, {@link Status#PEER_DEAD}, {@link
   *     Status#REFUSED}, {@link Status#TIMEOUT}, {@link Status#FENCED} and others
   */
  public Ticket send(ServiceId to, Outgoing message) {
    return sender.send(to, message);
  }

  /** Sends one item with tag 0, as {@link #send(ServiceId, Outgoing)}. */
  public Ticket send(ServiceId to, ByteBuffer item) {
    return sender.send(to, item, 0);
  }

  /** Sends one item, as {@link #send(ServiceId, Outgoing)}. */
  public Ticket send(ServiceId to, ByteBuffer item, int tag) {
    return sender.send(to, item, tag);
  }

  /** Like {@link #send(ServiceId, Outgoing)}, but returns null if the peer has no room. */
  public Ticket trySend(ServiceId to, Outgoing message) {
    return sender.trySend(to, message);
  }

  /**
   * Like {@link #send(ServiceId, Outgoing)}, but waits for room.
   *
   * @throws RipcException.TimedOut if there was none in this time
   */
  public Ticket send(ServiceId to, Outgoing message, long time, TimeUnit unit)
      throws InterruptedException {
    return sender.send(to, message, unit.toNanos(time));
  }

  /**
   * Sends several short messages to one service in one call, in their order, with fewer system
   * calls where a path needs them. Each must be made of items that fit an {@link Outgoing} (4 KiB
   * in all) and have no return buffers.
   *
   * @return how many were sent, the first ones; less than {@code count} if there is no room for
   *     more
   * @throws RipcException as {@link #send(ServiceId, Outgoing)}, if the first one could not be sent
   *     for another reason
   */
  public int sendMany(ServiceId to, Outgoing[] messages, int count) {
    return sender.sendMany(to, messages, count);
  }

  /**
   * Sends to the source of a message, as the reply to it: items of {@link Outgoing#addReturn} are
   * written into the request's return buffers; one that does not fit, or whose buffer is gone,
   * travels as a long item. The right to write ends with the first reply. The message stays the
   * caller's.
   */
  public Ticket reply(Message to, Outgoing message) {
    return sender.reply(to, message);
  }

  /** Like {@link #reply(Message, Outgoing)}, but returns null if the peer has no room. */
  public Ticket tryReply(Message to, Outgoing message) {
    return sender.tryReply(to, message);
  }

  /** Replies with one item and tag 0. */
  public Ticket reply(Message to, ByteBuffer item) {
    return sender.reply(to, item);
  }

  /**
   * Ends a request: its return buffers are the application's again, and no reply writes to them.
   *
   * @throws RipcException {@link Status#INVALID_ARGUMENT} if it is unknown or was answered already;
   *     {@link Status#TIMEOUT} if the peer was stopped in the middle of a write: nothing has
   *     changed then
   */
  public void cancelRequest(long requestId) {
    sender.cancelRequest(requestId);
  }

  /**
   * How many bytes the short items of a message to {@code to} may have in all, if it has this many
   * items.
   */
  public long shortLimit(ServiceId to, int items) {
    NativeBlock bytes = new NativeBlock(8);
    call(() -> binding.shortLimit(handle, to.value(), items, bytes.address));
    return bytes.bytes.getLong(0);
  }

  /**
   * Waits until a message that found no room may find some.
   *
   * @return false if the time ran out
   */
  public boolean waitRoom(ServiceId to, long time, TimeUnit unit) throws InterruptedException {
    return waiting.waitRoom(to.value(), unit.toNanos(time));
  }

  // ---- Receive ----

  /** Waits for a message. To be closed by the caller. */
  public Message receive() throws InterruptedException {
    return receiver.receive(Layout.FOREVER);
  }

  /**
   * Waits for a message for a time. To be closed by the caller.
   *
   * @return null if none came
   */
  public Message receive(long time, TimeUnit unit) throws InterruptedException {
    return receiver.receive(Math.max(0, unit.toNanos(time)));
  }

  /**
   * Looks at some of the messages that were sent {@link Outgoing#quiet}, and completes the tickets
   * of those that were taken. Sending another one does that too.
   *
   * @return how many of all of them are not known to have been taken
   */
  public int settle() {
    return sender.settle();
  }

  /** A message that is there now, else null. */
  public Message poll() {
    return receiver.poll();
  }

  /**
   * A batch to receive into.
   *
   * @param capacity the most messages at once, from 1 to 64
   * @param bytes room for the bytes of their short items; larger ones get memory of their own. With
   *     2728 bytes for each message it must fit one direct buffer, of less than 2 GB
   */
  public MessageBatch batch(int capacity, int bytes) {
    if (capacity < 1 || capacity > 64)
      throw new IllegalArgumentException("the capacity of a batch is 1 to 64");
    if (bytes < 0 || bytes > Integer.MAX_VALUE - capacity * Layout.Record.LARGEST)
      throw new IllegalArgumentException(
          "a batch has no room for " + bytes + " bytes: it takes 0 to 2 GB");
    return new MessageBatch(this, capacity, bytes);
  }

  /**
   * Closes what is in the batch and receives the messages that are there now, up to its capacity;
   * waits only for the first.
   *
   * @return how many; 0 if none came in this time
   */
  public int receive(MessageBatch batch, long time, TimeUnit unit) throws InterruptedException {
    return receiver.receive(batch, Math.max(0, unit.toNanos(time)));
  }

  /** The same without waiting. */
  public int poll(MessageBatch batch) {
    return receiver.poll(batch);
  }

  /**
   * Whether long items are received as lent views where the path can, in native memory elsewhere,
   * and use no window.
   */
  public Service lending(boolean on) {
    receiver.lending(on);
    return this;
  }

  /**
   * Ends the receive or room wait that is running, or the next one, with {@link
   * Status#INTERRUPTED}.
   */
  public void interrupt() {
    waiting.interrupt();
  }

  /**
   * Posts a window for this service. Item i of a message goes to the i-th window in posting order.
   */
  public void post(ReceiveWindow window) {
    enter();
    try {
      ripc.postAt(
          this, window, (data, size, window1) -> binding.windowPost(handle, data, size, window1));
    } finally {
      guard.leave();
    }
  }

  /**
   * Takes back a window that was posted here.
   *
   * @return false if it was not posted, or is in use
   */
  public boolean withdraw(ReceiveWindow window) {
    enter();
    try {
      return ripc.withdrawAt(
          this, window, (windowId, count) -> binding.windowWithdraw(handle, windowId, count));
    } finally {
      guard.leave();
    }
  }

  // ---- Groups and notifications ----

  /** Makes it a member of a group. */
  public void join(ServiceId group) {
    call(() -> binding.groupJoin(handle, group.value()));
  }

  /** Ends that. */
  public void leave(ServiceId group) {
    call(() -> binding.groupLeave(handle, group.value()));
  }

  /** Lets peers run a handler. The notification is to be passed to them. */
  public Notification register(NotificationHandler handler) {
    Objects.requireNonNull(handler);
    NativeBlock block = new NativeBlock(Layout.NotificationName.BYTES);
    enter();
    try {
      long user = Callbacks.add(handler);
      int status =
          binding.notificationRegister(handle, Callbacks.NOTIFICATION_ADDRESS, user, block.address);
      if (status != 0) {
        Callbacks.removeHandler(user);
        throw RipcException.ofLastCall(status);
      }
      Notification notification =
          new Notification(id, block.bytes.getLong(Layout.NotificationName.HANDLE));
      notifications.put(notification, user); // in here: the end of the service removes the handlers
      return notification;
    } finally {
      guard.leave();
    }
  }

  /**
   * After it returns the handler does not run and never will again; called by the handler, this run
   * is the last.
   */
  public void unregister(Notification notification) {
    NativeBlock block = nameOf(notification);
    call(() -> binding.notificationUnregister(handle, block.address));
    NativeBlock.keep(block);
    Long user = notifications.remove(notification);
    if (user != null) Callbacks.removeHandler(user);
  }

  /**
   * Runs a peer's handler, with up to {@link #shortLimit} bytes and at most 60 KiB of arguments.
   * Unreliable, like a short message, and fails like one.
   */
  public void notify(Notification notification, ByteBuffer... items) {
    NativeBlock block = nameOf(notification);
    Outgoing arguments = new Outgoing();
    for (ByteBuffer item : items) arguments.add(item, ItemKind.SHORT);
    sender.notify(block, arguments);
  }

  private static NativeBlock nameOf(Notification notification) {
    NativeBlock block = new NativeBlock(Layout.NotificationName.BYTES);
    block.bytes.putLong(Layout.NotificationName.SERVICE, notification.service().value());
    block.bytes.putLong(Layout.NotificationName.HANDLE, notification.handle());
    return block;
  }

  /** Its counters. */
  public ServiceStatistics statistics() {
    NativeBlock block = new NativeBlock(Layout.SERVICE_STATISTICS);
    block.bytes.putLong(0, Layout.SERVICE_STATISTICS);
    call(() -> binding.serviceStatistics(handle, block.address));
    long[] c = new long[Layout.SERVICE_STATISTICS / 8];
    for (int index = 0; index < c.length; ++index) c[index] = block.bytes.getLong(8 * index);
    return new ServiceStatistics(
        c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10], c[11], c[12], c[13], c[14],
        c[15], c[16], c[17], c[18], c[19], c[20], c[21], c[22], c[23], c[24]);
  }

  // ---- For the other classes ----

  interface Call {
    int run();
  }

  void call(Call body) {
    enter();
    try {
      RipcException.check(body.run());
    } finally {
      guard.leave();
    }
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

  ServiceId idOfPeer(long value) {
    ServiceId known = lastPeer;
    if (known == null || known.value() != value) lastPeer = known = ServiceId.of(value);
    return known;
  }

  // ---- The end ----

  /**
   * Withdraws the ID and ends the service: threads that wait in it return with {@link
   * RipcException.Closed}, tickets complete with {@link Status#CLOSED}, windows and return buffers
   * are the application's again. Messages stay valid.
   *
   * <p>Waits until the calls that are running in other threads have returned; from inside a
   * callback it does not.
   */
  @Override
  public void close() {
    if (!guard.tryEnter()) return;
    if (!guard.close()) {
      guard.leave();
      return;
    }
    Callbacks.outside(
        () -> {
          // Each wait in turn: one interrupt ends one.
          while (guard.inside() > 1 || receiver.isBusy()) {
            binding.interrupt(handle);
            LockSupport.parkNanos(CLOSE_PAUSE);
            // An interrupted thread does not park; it closes all the same.
            Thread.yield();
          }
          guard.leave();
        });
  }

  private void destroy() {
    receiver.drop();
    for (RipcSelector.Key key : keys) key.end();
    binding.serviceUnregister(handle);
    ripc.windowsReturnedOf(this);
    sender.drop();
    notifications.values().forEach(Callbacks::removeHandler);
    ripc.gone(this);
  }

  @Override
  public String toString() {
    return "Service " + id + (name.isEmpty() ? "" : " " + name);
  }
}
