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
 * A registered service ID with its receive queue: what sends and receives. Any thread may send, at
 * the same time as others. Receiving is done by one thread at a time; a second one gets an {@link
 * IllegalStateException}.
 *
 * <p>It is to be closed. One that the application has lost is found by the garbage collector,
 * closed and reported. This does not happen before its tickets are complete and its handlers are
 * unregistered.
 *
 * <p>Times of 0 do not wait; {@code receive()} without a time waits for ever.
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
      // The collector may have found its context first.
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

  /** The context is entered for it already. */
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

  /** The context it belongs to. */
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
   * <p>When it returns, all memory is the caller's again, except that of {@link Outgoing#borrow}.
   * That memory must not change until the ticket, which keeps it, is complete. Leased memory may be
   * released before. A program that borrows nothing may drop the ticket.
   *
   * @return complete already if nothing travels long
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
   * calls where a path needs them. Each must be made of items that fit an {@link Outgoing} (4 KiB
   * in all) and have no return buffers.
   *
   * @return how many were sent, the first ones; less than {@code count} if there is no room for
   *     more
   * @throws RipcException as {@link #send(ServiceId, Outgoing)}, if the first one could not be sent
   *     for another reason
   */
  public int sendMany(ServiceId to, Outgoing[] messages, int count) {
    return sender.sendMany(this, to, messages, count);
  }

  /**
   * Sends to the source of a message, as the reply to it: items of {@link Outgoing#addReturn} are
   * written into the request's return buffers; one that does not fit, or whose buffer is gone,
   * travels long, from a copy. The right to write ends with the first reply. The message stays the
   * caller's: what it holds may be sent, and it may be closed at once if nothing of it was
   * borrowed.
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
   * Ends a request: its return buffers are the application's again, and no reply writes to them.
   *
   * @throws RipcException {@link Status#INVALID_ARGUMENT} if it is unknown or was answered already;
   *     {@link Status#TIMEOUT} if the peer was stopped in the middle of a write: nothing has
   *     changed then
   */
  public void cancelRequest(long requestId) {
    sender.cancelRequest(this, requestId);
  }

  /**
   * How many bytes the short items of a message to {@code to} may have in all, if it has this many
   * items.
   */
  public long shortLimit(ServiceId to, int items) {
    NativeBlock bytes = new NativeBlock(8);
    core.call(this, () -> binding.shortLimit(core.handle(), to.value(), items, bytes.address));
    return bytes.bytes.getLong(0);
  }

  /**
   * Waits until a message that found no room may find some.
   *
   * @return false if the time ran out
   */
  public boolean waitRoom(ServiceId to, long time, TimeUnit unit) throws InterruptedException {
    return core.waiting().waitRoom(this, to.value(), unit.toNanos(time));
  }

  // ---- Receive ----

  /** Waits for a message. To be closed by the caller. */
  public Message receive() throws InterruptedException {
    return receiver.receive(this, Layout.FOREVER);
  }

  /**
   * Waits for a message for a time. To be closed by the caller.
   *
   * @return null if none came
   */
  public Message receive(long time, TimeUnit unit) throws InterruptedException {
    return receiver.receive(this, Math.max(0, unit.toNanos(time)));
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
    return receiver.poll(this);
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
    return receiver.receive(this, batch, Math.max(0, unit.toNanos(time)));
  }

  /** The same without waiting. */
  public int poll(MessageBatch batch) {
    return receiver.poll(this, batch);
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

  /** Makes it a member of a group. */
  public void join(ServiceId group) {
    core.call(this, () -> binding.groupJoin(core.handle(), group.value()));
  }

  /** Ends that. */
  public void leave(ServiceId group) {
    core.call(this, () -> binding.groupLeave(core.handle(), group.value()));
  }

  /**
   * Lets peers run a handler. The notification is to be passed to them. Until it is unregistered,
   * the service is in use, whether or not the application has it still.
   */
  public Notification register(NotificationHandler handler) {
    Objects.requireNonNull(handler);
    NativeBlock block = new NativeBlock(Layout.NotificationName.BYTES);
    core.enter();
    try {
      // Whoever may be called is not lost.
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
          .put(notification, user); // in here: the end of the service removes the handlers
      return notification;
    } finally {
      core.leave(this);
    }
  }

  /**
   * After it returns the handler does not run and never will again; called by the handler, this run
   * is the last.
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
   * What is larger goes in a message before it. Unreliable, like a short message, and fails like
   * one.
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
   * <p>Waits until the calls that are running in other threads have returned; from inside a
   * callback it does not.
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
