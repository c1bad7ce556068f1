// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.libripc.internal.Layout.OutgoingMessage;
import org.libripc.internal.NativeBinding;
import org.libripc.internal.NativeBlock;
import org.libripc.internal.Spares;

/** The sending half of a service. */
final class Sender {
  private static final int MOST_AT_ONCE = 64;
  // More than the one quiet message that each send adds, so every message is checked sooner or
  // later.
  private static final int LOOKED_AT = 4;
  private static final Spares<Outgoing> SINGLE = new Spares<>(Outgoing::new);
  private static final Spares<NativeBlock> MANY =
      new Spares<>(() -> new NativeBlock(MOST_AT_ONCE * OutgoingMessage.BYTES + 8));

  private final ServiceCore service;
  private final RipcCore ripc;
  private final NativeBinding binding;
  private final Map<Long, ReturnBuffer[]> requests = new ConcurrentHashMap<>();
  // The destinations of requests that are being sent. A reply may arrive before its request's
  // buffers are registered.
  private final Queue<Long> beingSentTo = new ConcurrentLinkedQueue<>();
  private final Queue<Ticket> quiet = new ConcurrentLinkedQueue<>();
  private final AtomicInteger quietCount = new AtomicInteger();
  private volatile boolean dropped; // the service is gone

  Sender(ServiceCore service) {
    this.service = service;
    ripc = service.ripc();
    binding = service.binding();
  }

  Ticket send(Service by, ServiceId to, ByteBuffer item, int tag) {
    Outgoing message = SINGLE.take();
    try {
      return send(by, to, message.tag(tag).add(item));
    } finally {
      SINGLE.giveBack(message.clear());
    }
  }

  Ticket send(Service by, ServiceId to, Outgoing message) {
    Ticket ticket = trySend(by, to, message);
    if (ticket == null) throw RipcException.ofLastCall(Status.AGAIN.code());
    return ticket;
  }

  Ticket send(Service by, ServiceId to, Outgoing message, long timeout)
      throws InterruptedException {
    long started = System.nanoTime();
    for (; ; ) {
      Ticket ticket = trySend(by, to, message);
      if (ticket != null) return ticket;
      long left = timeout - (System.nanoTime() - started);
      if (!service.waiting().waitRoom(by, to.value(), Math.max(0, left))) {
        throw RipcException.of(
            Status.TIMEOUT, "The peer had no room in this time: is it receiving?");
      }
    }
  }

  /** Null: no room. */
  Ticket trySend(Service by, ServiceId to, Outgoing message) {
    boolean group = to.isGroup();
    if (!group && message.isPlain()) {
      int status = sendPlain(by, to.value(), message);
      if (status == 0) return Ticket.DONE;
      if (status == Status.AGAIN.code()) return null;
      if (status != Status.TOO_LARGE.code() || !message.mayBeLong())
        throw RipcException.ofLastCall(status);
    }
    return sendAny(by, to.value(), message, group, null);
  }

  Ticket reply(Service by, Message to, ByteBuffer item) {
    Outgoing message = SINGLE.take();
    try {
      return reply(by, to, message.add(item));
    } finally {
      SINGLE.giveBack(message.clear());
    }
  }

  Ticket reply(Service by, Message to, Outgoing message) {
    Ticket ticket = tryReply(by, to, message);
    if (ticket == null) throw RipcException.ofLastCall(Status.AGAIN.code());
    return ticket;
  }

  /** Null: no room. */
  Ticket tryReply(Service by, Message to, Outgoing message) {
    NativeMessage handle = to.handle();
    return handle == null
        ? trySend(by, to.source(), message)
        : sendAny(by, to.source().value(), message, false, handle);
  }

  private int sendPlain(Service by, long to, Outgoing message) {
    int items = message.preparePlain(true);
    service.enter();
    try {
      long options = message.memory.plainOptions(message.tagNumber());
      return binding.send(service.handle(), to, message.memory.plainItems(), items, options, 0);
    } finally {
      service.leave(by);
      Reference.reachabilityFence(message);
    }
  }

  // For long items, return buffers and groups.
  private Ticket sendAny(
      Service by, long to, Outgoing message, boolean group, NativeMessage replyTo) {
    Ticket ticket;
    message.begin();
    try {
      ticket = sendBegun(by, to, message, group, replyTo);
    } finally {
      message.end();
      Reference.reachabilityFence(by);
      Reference.reachabilityFence(message);
    }
    if (ticket != null) settleFor(ticket);
    return ticket;
  }

  private Ticket sendBegun(
      Service by, long to, Outgoing message, boolean group, NativeMessage replyTo) {
    ItemMemory memory = new ItemMemory();
    ReturnBuffer[] returns = message.returnBuffers();
    Ticket ticket = null;
    boolean kept = false;
    int status;
    service.enter();
    try {
      if (!group && message.mayBeLong())
        ticket = new Ticket(by, ripc, memory.lent, message.isQuiet());
      long user = ticket == null ? 0 : ticket.user();
      status =
          returns.length == 0
              ? prepared(to, message, memory, user, group, replyTo, returns)
              : request(to, message, memory, user, returns, replyTo);
      message.readResults(group);
      if (status == 0 && ticket != null && message.memory.ticketHandle() != 0) {
        ticket.sent(message.memory.ticketHandle());
        kept = true;
      }
    } finally {
      service.guard().leave();
      if (ticket != null && !kept) ticket.unused();
      if (ticket == null) CountedMemory.releaseAll(memory.lent);
      CountedMemory.releaseAll(memory.used);
      Reference.reachabilityFence(memory);
    }
    if (kept && ticket.user() == 0) keepQuiet(ticket);
    if (status == Status.AGAIN.code()) return null;
    RipcException.check(status);
    return kept ? ticket : Ticket.DONE;
  }

  /** The caller has to call {@link #settleFor} afterwards. */
  void keepQuiet(Ticket ticket) {
    quietCount.incrementAndGet();
    quiet.add(ticket);
  }

  /** After a send: does {@link #settle}, whose rules apply, if the message was quiet. */
  void settleFor(Ticket sent) {
    if (sent != Ticket.DONE && sent.user() == 0) settle();
  }

  /**
   * Checks some quiet messages. Returns how many are not known to have been taken. The caller has
   * entered nothing and holds no lock, because tickets complete here: their actions may close
   * everything.
   */
  int settle() {
    for (int looked = 0; looked < LOOKED_AT && quietCount.get() > 0; ++looked) {
      Ticket ticket = quiet.poll();
      if (ticket == null) break;
      if (ticket.poll()) {
        quietCount.decrementAndGet();
      } else {
        quiet.add(ticket);
      }
    }
    if (dropped) endQuiet(); // drop() has not seen what was added since
    return quietCount.get();
  }

  private void endQuiet() {
    for (Ticket each = quiet.poll(); each != null; each = quiet.poll()) {
      quietCount.decrementAndGet();
      each.poll();
    }
  }

  private int prepared(
      long to,
      Outgoing message,
      ItemMemory memory,
      long user,
      boolean group,
      NativeMessage replyTo,
      ReturnBuffer[] returns) {
    int items =
        message.prepare(ripc, memory, user, group, replyTo != null, returns, () -> shortLimit(to));
    return call(to, message.memory, items, replyTo);
  }

  /**
   * The limit for a single item. If it is not known there is no limit, and the send will say why.
   */
  long shortLimit(long to) {
    NativeBlock limit = new NativeBlock(8);
    int status = binding.shortLimit(service.handle(), to, 1, limit.address);
    return status == 0 ? limit.bytes.getLong(0) : Long.MAX_VALUE;
  }

  private int call(long to, OutgoingMemory message, int items, NativeMessage replyTo) {
    if (replyTo == null) {
      return binding.send(
          service.handle(), to, message.items(), items, message.options(), message.ticketAddress());
    }
    long request = replyTo.enter();
    try {
      return binding.reply(
          service.handle(),
          request,
          message.items(),
          items,
          message.options(),
          message.ticketAddress());
    } finally {
      replyTo.leave();
    }
  }

  private int request(
      Long to,
      Outgoing message,
      ItemMemory memory,
      long user,
      ReturnBuffer[] buffers,
      NativeMessage replyTo) {
    int status = -1;
    int attached = 0;
    try {
      for (; attached < buffers.length; ++attached) buffers[attached].attached(ripc);
      beingSentTo.add(to);
      try {
        status = prepared(to, message, memory, user, false, replyTo, buffers);
      } finally {
        if (status == 0) requests.put(message.memory.request(), buffers);
        beingSentTo.remove(to);
      }
      return status;
    } finally {
      if (status != 0) for (int index = 0; index < attached; ++index) buffers[index].returned();
    }
  }

  /**
   * The buffers of a request, which the caller has to return; null if the request is unknown.
   *
   * @param from the service that has answered; 0: none
   */
  ReturnBuffer[] requestAnswered(long request, long from) {
    for (; ; ) {
      boolean mayCome = beingSentTo.contains(from);
      ReturnBuffer[] buffers = requests.remove(request);
      if (buffers != null || !mayCome) return buffers;
      // The request was sent, so the sending call is about to return. That thread must not have to
      // wait for a lock: as a virtual thread it might get no carrier while native waits hold them
      // all.
      Thread.yield();
    }
  }

  void cancelRequest(Service by, long request) {
    service.call(by, () -> binding.requestCancel(service.handle(), request));
    ReturnBuffer[] buffers = requestAnswered(request, 0);
    if (buffers != null) for (ReturnBuffer buffer : buffers) buffer.returned();
  }

  int sendMany(Service by, ServiceId to, Outgoing[] messages, int count) {
    if (count < 0 || count > messages.length) throw new IndexOutOfBoundsException(count);
    for (int index = 0; index < count; ++index) {
      if (!messages[index].isPlain()) {
        throw new IllegalArgumentException(
            "sendMany() takes messages of short items, at most 4 KiB in all, in order and without return buffers: send() takes any");
      }
    }
    int sent = 0;
    NativeBlock block = MANY.take();
    service.enter(); // once: a close() between two parts would lose the count
    try {
      while (sent < count) {
        int part = Math.min(MOST_AT_ONCE, count - sent);
        int done = sendPart(to.value(), messages, sent, part, block);
        sent += done;
        if (done < part) break;
      }
    } finally {
      service.leave(by);
      MANY.giveBack(block);
      Reference.reachabilityFence(messages);
    }
    return sent;
  }

  private int sendPart(long to, Outgoing[] messages, int first, int count, NativeBlock block) {
    for (int index = 0; index < count; ++index) {
      Outgoing message = messages[first + index];
      int items = message.preparePlain(true);
      block.bytes.putLong(
          index * OutgoingMessage.BYTES + OutgoingMessage.ITEMS, message.memory.plainItems());
      block.bytes.putInt(index * OutgoingMessage.BYTES + OutgoingMessage.COUNT, items);
      block.bytes.putInt(index * OutgoingMessage.BYTES + OutgoingMessage.TAG, message.tagNumber());
    }
    long sentAt = block.address + MOST_AT_ONCE * OutgoingMessage.BYTES;
    int status = binding.sendMany(service.handle(), to, block.address, count, sentAt);
    int sent = (int) block.bytes.getLong(MOST_AT_ONCE * OutgoingMessage.BYTES);
    if (status != 0 && status != Status.AGAIN.code() && first == 0 && sent == 0) {
      throw RipcException.ofLastCall(status);
    }
    return sent;
  }

  void notify(Service by, NativeBlock name, Outgoing arguments) {
    ItemMemory memory = new ItemMemory();
    service.enter();
    try {
      int items =
          arguments.prepare(
              ripc, memory, 0, false, false, new ReturnBuffer[0], () -> Long.MAX_VALUE);
      RipcException.check(
          binding.notify(service.handle(), name.address, arguments.memory.items(), items));
    } finally {
      service.leave(by);
      CountedMemory.releaseAll(memory.used);
      Reference.reachabilityFence(memory);
      Reference.reachabilityFence(arguments);
      NativeBlock.keep(name);
    }
  }

  /** Called when the service is gone: no reply will come, and no message is under way. */
  void drop() {
    dropped = true;
    endQuiet();
    for (Long request : requests.keySet()) {
      ReturnBuffer[] buffers = requests.remove(request);
      if (buffers != null) for (ReturnBuffer buffer : buffers) buffer.returned();
    }
  }
}
