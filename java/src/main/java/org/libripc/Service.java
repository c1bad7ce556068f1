// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.libripc.internal.Layout;
import org.libripc.internal.Leaks;
import org.libripc.internal.NativeBinding;
import org.libripc.internal.NativeBlock;
import org.libripc.internal.RpcEndpoint;

/**
 * A registered service ID with its receive queue; it sends and receives. Several threads may send
 * at the same time. Only one thread receives at a time; a second one gets an {@link
 * IllegalStateException}.
 *
 * <p>Close it after use. If the application loses it, the garbage collector finds, closes and
 * reports it, but not before its tickets are complete and its handlers are unregistered.
 *
 * <p>With a time of 0 a call does not wait; {@code receive()} without a time waits for ever.
 */
public final class Service implements AutoCloseable {
  static {
    RpcEndpoint.Door.to(Endpoint::new);
  }

  /** What the garbage collector's net needs to know. */
  private record Net(ServiceCore core, ServiceId id, String name, Throwable trace)
      implements Runnable {
    @Override
    public void run() {
      // The collector may have found the service's context first.
      if (core.close() || core.ripc().isLost())
        Leaks.report("Service", " " + id + (name.isEmpty() ? "" : " " + name), trace);
    }
  }

  private final Ripc ripc;
  private final ServiceCore core;
  private final Sender sender;
  private final Receiver receiver;
  private final NativeBinding binding;
  private final ServiceId id;
  private final String name;
  private final long incarnation;
  private final Cleaner.Cleanable cleanable;

  /** The caller has entered the context for it already. */
  Service(Ripc ripc, long handle, String name) {
    this.ripc = ripc;
    this.name = name;
    binding = ripc.core().binding();
    id = ServiceId.of(binding.serviceId(handle));
    incarnation = binding.serviceIncarnation(handle);
    core = new ServiceCore(ripc.core(), handle);
    sender = core.sender();
    receiver = core.receiver();
    cleanable = Leaks.CLEANER.register(this, new Net(core, id, name, Leaks.trace()));
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

  /** The context that it belongs to. */
  public Ripc ripc() {
    return ripc;
  }

  /** Whether {@link #close} was called, here or on the context. */
  public boolean isClosed() {
    return core.isClosed();
  }

  // ---- Send ----

  /**
   * Sends a message to a service, or short items to a group.
   *
   * <p>When it returns, all memory is the caller's again, except memory passed to {@link
   * Outgoing#borrow}. Borrowed memory must not change until the ticket, which keeps it, is
   * complete. Leased memory may be released before that. A program that borrows nothing may drop
   * the ticket.
   *
   * @return the ticket; complete already if nothing travels long
   * @throws RipcException.NoRoom if the peer has no room: nothing was sent
   * @throws RipcException.TooLarge if the short items are larger than {@link #shortLimit}
   * @throws RipcException {@link Status#NO_SERVICE}, {@link Status#PEER_DEAD}, {@link
   *     Status#REFUSED}, {@link Status#TIMEOUT}, {@link Status#FENCED} and others
   */
  public Ticket send(ServiceId to, Outgoing message) {
    return sender.send(this, to, message);
  }

  /** Sends one item with tag 0, as {@link #send(ServiceId, Outgoing)}. */
  public Ticket send(ServiceId to, ByteBuffer item) {
    return sender.send(this, to, item, 0);
  }

  /** Sends one item, as {@link #send(ServiceId, Outgoing)}. */
  public Ticket send(ServiceId to, ByteBuffer item, int tag) {
    return sender.send(this, to, item, tag);
  }

  /** Like {@link #send(ServiceId, Outgoing)}, but returns null if the peer has no room. */
  public Ticket trySend(ServiceId to, Outgoing message) {
    return sender.trySend(this, to, message);
  }

  /**
   * Like {@link #send(ServiceId, Outgoing)}, but waits for room.
   *
   * @throws RipcException.TimedOut if there was none in this time
   */
  public Ticket send(ServiceId to, Outgoing message, long time, TimeUnit unit)
      throws InterruptedException {
    return sender.send(this, to, message, unit.toNanos(time));
  }

  /**
   * Sends several short messages to one service in one call, in their order, with fewer system
   * calls on paths that need them. The items of each message must fit into its {@link Outgoing} (4
   * KiB in all), and it must have no return buffers.
   *
   * @return how many were sent, from the first one on; less than {@code count} if the next one
   *     found no room, or failed
   * @throws IllegalArgumentException if one of them is not such a message; then none was sent
   * @throws RipcException as {@link #send(ServiceId, Outgoing)}, if the first one could not be sent
   *     for another reason
   */
  public int sendMany(ServiceId to, Outgoing[] messages, int count) {
    return sender.sendMany(this, to, messages, count);
  }

  /**
   * Sends to the source of a message, as the reply to it: items of {@link Outgoing#addReturn} are
   * written into the request's return buffers. One that does not fit, or whose buffer is gone,
   * becomes a short item: up to 4 KiB on one host, and up to 64 KiB between hosts, if the message
   * has room. Else it travels long, from a copy. The right to write ends with the first reply. The
   * message still belongs to the caller: its items may be sent, and it may be closed at once if
   * none of them was borrowed.
   */
  public Ticket reply(Message to, Outgoing message) {
    return sender.reply(this, to, message);
  }

  /** Like {@link #reply(Message, Outgoing)}, but returns null if the peer has no room. */
  public Ticket tryReply(Message to, Outgoing message) {
    return sender.tryReply(this, to, message);
  }

  /** Replies with one item and tag 0. */
  public Ticket reply(Message to, ByteBuffer item) {
    return sender.reply(this, to, item);
  }

  /**
   * Cancels a request: its return buffers are the application's again, and no reply writes to them.
   *
   * @throws RipcException {@link Status#INVALID_ARGUMENT} if it is unknown or was answered already;
   *     {@link Status#TIMEOUT} if the peer was stopped in the middle of a write: the request then
   *     continues, its buffers stay attached, and the peer may write only to those that it was
   *     writing
   */
  public void cancelRequest(long requestId) {
    sender.cancelRequest(this, requestId);
  }

  /**
   * The most bytes that the short items of a message to {@code to} may have in all, for this number
   * of items.
   */
  public long shortLimit(ServiceId to, int items) {
    NativeBlock bytes = new NativeBlock(8);
    core.call(this, () -> binding.shortLimit(core.handle(), to.value(), items, bytes.address));
    return bytes.bytes.getLong(0);
  }

  /**
   * Waits until there may be room for a message that found none.
   *
   * @return false if the time ran out
   */
  public boolean waitRoom(ServiceId to, long time, TimeUnit unit) throws InterruptedException {
    return core.waiting().waitRoom(this, to.value(), unit.toNanos(time));
  }

  // ---- Receive ----

  /** Waits for a message, which the caller has to close. */
  public Message receive() throws InterruptedException {
    return receiver.receive(this, Layout.FOREVER);
  }

  /**
   * Waits at most this long for a message, which the caller has to close.
   *
   * @return null if none came
   */
  public Message receive(long time, TimeUnit unit) throws InterruptedException {
    return receiver.receive(this, Math.max(0, unit.toNanos(time)));
  }

  /**
   * Checks some of the messages that were sent {@link Outgoing#quiet}, and completes the tickets of
   * those that were taken. Sending another quiet message does this too.
   *
   * @return how many quiet messages in all are not known to have been taken
   */
  public int settle() {
    return sender.settle();
  }

  /** Returns a message if there is one now, else null. */
  public Message poll() {
    return receiver.poll(this);
  }

  /**
   * Makes a batch to receive into.
   *
   * @param capacity the most messages at once, from 1 to 64
   * @param bytes room for the bytes of their short items; larger messages get separate memory. With
   *     2744 bytes for each message it must fit into one direct buffer of less than 2 GB
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
   * Closes the messages in the batch and receives those that are there now, up to its capacity;
   * waits only for the first.
   *
   * @return how many; 0 if none came in this time
   */
  public int receive(MessageBatch batch, long time, TimeUnit unit) throws InterruptedException {
    return receiver.receive(this, batch, Math.max(0, unit.toNanos(time)));
  }

  /** The same without waiting. */
  public int poll(MessageBatch batch) {
    return receiver.poll(this, batch);
  }

  /**
   * Sets whether long items use no window: they are received as lent views if the path can lend
   * them, else in native memory. Returns this.
   */
  public Service lending(boolean on) {
    receiver.lending(on);
    return this;
  }

  /**
   * Ends the running receive or wait for room, or the next one, with {@link Status#INTERRUPTED}.
   */
  public void interrupt() {
    core.waiting().interrupt();
  }

  /**
   * Posts a window for this service. Item i of a message goes to the i-th window in posting order.
   */
  public void post(ReceiveWindow window) {
    core.enter();
    try {
      core.ripc()
          .postAt(
              core,
              window,
              (data, size, window1) -> binding.windowPost(core.handle(), data, size, window1));
    } finally {
      core.leave(this);
    }
  }

  /**
   * Takes back a window that was posted here.
   *
   * @return false if it was not posted, or is in use
   */
  public boolean withdraw(ReceiveWindow window) {
    core.enter();
    try {
      return core.ripc()
          .withdrawAt(
              core,
              window,
              (windowId, count) -> binding.windowWithdraw(core.handle(), windowId, count));
    } finally {
      core.leave(this);
    }
  }

  // ---- Groups and notifications ----

  /** Makes this service a member of a group. */
  public void join(ServiceId group) {
    core.call(this, () -> binding.groupJoin(core.handle(), group.value()));
  }

  /** Ends the membership in a group. */
  public void leave(ServiceId group) {
    core.call(this, () -> binding.groupLeave(core.handle(), group.value()));
  }

  /**
   * Lets peers run a handler. Send them the notification that this returns. Until it is
   * unregistered, the service counts as in use, even if the application has lost it.
   */
  public Notification register(NotificationHandler handler) {
    Objects.requireNonNull(handler);
    NativeBlock block = new NativeBlock(Layout.NotificationName.BYTES);
    core.enter();
    try {
      // A service whose handler may be called is not lost.
      long user =
          Callbacks.add(
              (source, items) -> {
                handler.notified(source, items);
                Reference.reachabilityFence(this);
              });
      int status =
          binding.notificationRegister(
              core.handle(), Callbacks.NOTIFICATION_ADDRESS, user, block.address);
      if (status != 0) {
        Callbacks.removeHandler(user);
        throw RipcException.ofLastCall(status);
      }
      Notification notification =
          new Notification(id, block.bytes.getLong(Layout.NotificationName.HANDLE));
      core.notifications()
          .put(notification, user); // inside the call: the service's end removes the handlers
      return notification;
    } finally {
      core.leave(this);
    }
  }

  /**
   * After it returns, the handler is not running and never runs again. If the handler itself calls
   * it, this run is the last.
   */
  public void unregister(Notification notification) {
    NativeBlock block = nameOf(notification);
    core.call(this, () -> binding.notificationUnregister(core.handle(), block.address));
    NativeBlock.keep(block);
    Long user = core.notifications().remove(notification);
    if (user != null) Callbacks.removeHandler(user);
  }

  /**
   * Runs a peer's handler, with up to {@link #shortLimit} bytes and at most 61,408 of arguments.
   * Send larger data in a message before it. A notification is unreliable, like a short message,
   * and fails like one.
   */
  public void notify(Notification notification, ByteBuffer... items) {
    NativeBlock block = nameOf(notification);
    Outgoing arguments = new Outgoing();
    for (ByteBuffer item : items) arguments.add(item, ItemKind.SHORT);
    sender.notify(this, block, arguments);
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
    core.call(this, () -> binding.serviceStatistics(core.handle(), block.address));
    long[] c = new long[Layout.SERVICE_STATISTICS / 8];
    for (int index = 0; index < c.length; ++index) c[index] = block.bytes.getLong(8 * index);
    return new ServiceStatistics(
        c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10], c[11], c[12], c[13], c[14],
        c[15], c[16], c[17], c[18], c[19], c[20], c[21], c[22], c[23], c[24]);
  }

  // ---- For the other classes ----

  ServiceCore core() {
    return core;
  }

  // ---- The end ----

  /**
   * Withdraws the ID and ends the service. Threads that wait in it return with {@link
   * RipcException.Closed}, and tickets complete with {@link Status#CLOSED}. Windows and return
   * buffers are the application's again. Messages stay valid.
   *
   * <p>Waits until the calls that are running in other threads have returned, except inside a
   * callback.
   */
  @Override
  public void close() {
    core.close();
    cleanable.clean();
  }

  @Override
  public String toString() {
    return "Service " + id + (name.isEmpty() ? "" : " " + name);
  }
}
