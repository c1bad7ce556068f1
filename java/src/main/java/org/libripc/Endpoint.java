// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.libripc.internal.Chunk;
import org.libripc.internal.Guard;
import org.libripc.internal.Layout;
import org.libripc.internal.Layout.CallOptions;
import org.libripc.internal.Layout.CallRecord;
import org.libripc.internal.Layout.Record;
import org.libripc.internal.NativeBinding;
import org.libripc.internal.NativeBlock;
import org.libripc.internal.RpcEndpoint;
import org.libripc.internal.RpcRequest;
import org.libripc.internal.Spares;

/**
 * The calls of a service, for org.libripc.rpc. Requests and ends of calls come as records, many
 * with one native call. The endpoint does not refer to the {@link Service}, so that the garbage
 * collector finds a service that the application has lost.
 */
final class Endpoint implements RpcEndpoint {
  private static final int CHUNK = 256 << 10;
  private static final int FEW = 8 * CallRecord.LARGEST; // a chunk always has room for these
  private static final long DEFAULT_TIMEOUT = 5_000_000_000L;
  // How often to ask whether clients have taken the answers that travel long.
  private static final long LOOK = 5_000_000;
  // The options of a call, then its name.
  private static final int NAME = CallOptions.BYTES;
  private static final Spares<NativeBlock> ARGUMENTS = new Spares<>(Endpoint::arguments);
  private final ServiceCore service;
  private final RipcCore ripc;
  private final NativeBinding binding;
  private final Events events;
  private final long handle;
  private final CallSlots slots = new CallSlots();
  private final Guard guard = new Guard(() -> Callbacks.outside(this::destroy));

  private final AtomicReference<Thread> runner = new AtomicReference<>();

  // Below: used by the thread that runs the endpoint.
  private final Waiting.Wait wait = this::runOnce;
  private final NativeBlock count = new NativeBlock(8);
  private final Chunks chunks = new Chunks();
  private final IncomingCall request;
  private final Message answer = new Message(null, true);
  private Chunk chunk;

  Endpoint(Service by, int slotCount, int queue, int maxSessions, Events events) {
    this.events = events;
    service = by.core();
    ripc = service.ripc();
    binding = service.binding();
    request = new IncomingCall(this);
    service.enter();
    long created = 0;
    try {
      service.receiver().beginCalls();
      try {
        created = create(slotCount, queue, maxSessions);
      } finally {
        if (created == 0) service.receiver().end();
      }
    } finally {
      if (created == 0) service.guard().leave();
    }
    handle = created;
    service.endpoint(this);
  }

  private static NativeBlock arguments() {
    NativeBlock block = new NativeBlock(NAME + 8);
    block.bytes.putLong(0, CallOptions.BYTES);
    return block;
  }

  private long create(int slotCount, int queue, int maxSessions) {
    NativeBlock options = new NativeBlock(Layout.RpcOptions.BYTES);
    options
        .bytes
        .putLong(0, Layout.RpcOptions.BYTES)
        .putInt(Layout.RpcOptions.SLOTS, slotCount)
        .putInt(Layout.RpcOptions.QUEUE, queue)
        .putInt(Layout.RpcOptions.MAX_SESSIONS, maxSessions)
        .putInt(Layout.RpcOptions.RECORDED, 1);
    RipcException.check(binding.rpcCreate(service.handle(), options.address, count.address));
    NativeBlock.keep(options);
    return count.bytes.getLong(0);
  }

  RipcCore ripc() {
    return ripc;
  }

  ServiceCore service() {
    return service;
  }

  private void enter() {
    if (!guard.tryEnter()) throw closed();
  }

  private RipcException closed() {
    return service.isClosed()
        ? ServiceCore.closed()
        : new RipcException.Closed("This Rpc was closed: open another one.");
  }

  @Override
  public void handle(int method, int handler) {
    enter();
    try {
      RipcException.check(binding.rpcHandle(handle, method, handler));
    } finally {
      guard.leave();
    }
  }

  // ---- Calls ----

  @Override
  public long call(
      ServiceId to,
      int method,
      Outgoing arguments,
      long timeout,
      boolean idempotent,
      RpcRequest parent,
      Object caller) {
    long left = parent == null ? timeout : least(timeout, parent.timeLeft());
    enter();
    CallSlots.Slot slot = slots.take(caller);
    NativeBlock block = ARGUMENTS.take();
    int status = -1;
    try {
      block
          .bytes
          .putLong(CallOptions.TIMEOUT, left)
          .putInt(CallOptions.IDEMPOTENT, idempotent ? 1 : 0);
      status =
          arguments.isPlain()
              ? callPlain(to, method, arguments, block, slot)
              : callAny(to, method, arguments, block, slot);
      if (status != 0) throw RipcException.ofLastCall(status);
      return block.bytes.getLong(NAME);
    } finally {
      // Once the call has begun, the slot belongs to whoever receives its end.
      if (status != 0) slots.giveBack(slot);
      ARGUMENTS.giveBack(block);
      guard.leave();
      Reference.reachabilityFence(arguments);
    }
  }

  private static long least(long timeout, long left) {
    if (left == 0) {
      throw RipcException.of(
          Status.TIMEOUT, "The request that this call is made for has no time left: end it.");
    }
    long wanted = timeout == Layout.DEFAULT_TIME ? DEFAULT_TIMEOUT : timeout;
    return Long.compareUnsigned(wanted, left) < 0 ? wanted : left;
  }

  private int callPlain(
      ServiceId to, int method, Outgoing arguments, NativeBlock block, CallSlots.Slot slot) {
    int items = arguments.preparePlain(false);
    block.bytes.putInt(CallOptions.RETURN_COUNT, 0).putLong(CallOptions.LOAN_ENDED, 0);
    return binding.rpcCall(
        handle,
        to.value(),
        method,
        arguments.memory.plainItems(),
        items,
        block.address,
        slot.number(),
        block.address + NAME);
  }

  // For long arguments and return buffers.
  private int callAny(
      ServiceId to, int method, Outgoing arguments, NativeBlock block, CallSlots.Slot slot) {
    arguments.begin();
    ItemMemory memory = new ItemMemory();
    ReturnBuffer[] returns = arguments.returnBuffers();
    Ticket loan = null;
    int attached = 0;
    int status = -1;
    try {
      for (; attached < returns.length; ++attached) returns[attached].attached(ripc);
      if (returns.length != 0) lend(slot, returns);
      int items =
          arguments.prepareItems(
              ripc, memory, false, false, returns, () -> service.sender().shortLimit(to.value()));
      if (!memory.lent.isEmpty()) loan = new Ticket(null, ripc, memory.lent, false);
      block
          .bytes
          .putInt(CallOptions.RETURN_COUNT, returns.length)
          .putLong(CallOptions.RETURNS, arguments.memory.returns(returns.length))
          .putLong(CallOptions.LOAN_ENDED, loan == null ? 0 : Callbacks.TICKET_ADDRESS)
          .putLong(CallOptions.LOAN_USER, loan == null ? 0 : loan.user());
      status =
          binding.rpcCall(
              handle,
              to.value(),
              method,
              arguments.memory.items(),
              items,
              block.address,
              slot.number(),
              block.address + NAME);
      return status;
    } finally {
      if (status != 0) {
        if (loan != null) loan.unused();
        else CountedMemory.releaseAll(memory.lent);
        for (int index = 0; index < attached; ++index) returns[index].returned();
      }
      CountedMemory.releaseAll(memory.used);
      Reference.reachabilityFence(memory);
      arguments.end();
    }
  }

  private static void lend(CallSlots.Slot slot, ReturnBuffer[] returns) {
    AtomicReference<ReturnBuffer[]> lent = new AtomicReference<>(returns);
    slot.returns = lent;
    if (slot.caller instanceof Borrower caller) caller.lends(() -> giveBack(lent.getAndSet(null)));
  }

  private static void giveBack(ReturnBuffer[] returns) {
    if (returns != null) for (ReturnBuffer each : returns) each.returned();
  }

  @Override
  public boolean cancel(long call) {
    if (!guard.tryEnter()) return false;
    try {
      return binding.rpcCancel(handle, call) == 0;
    } finally {
      guard.leave();
    }
  }

  // ---- Answers ----

  /** Called by the request, which is open: ends it, or throws. */
  Ticket reply(long open, int code, Outgoing message) {
    if (!message.isPlain()) {
      enter();
      try {
        return replyAny(open, code, message);
      } finally {
        guard.leave();
      }
    }
    try {
      int items = message.preparePlain(false);
      RipcException.check(binding.requestReply(open, code, message.memory.plainItems(), items, 0));
      return Ticket.DONE;
    } finally {
      Reference.reachabilityFence(message);
    }
  }

  private Ticket replyAny(long open, int code, Outgoing message) {
    if (message.returnBuffers().length != 0)
      throw new IllegalArgumentException("an answer has no return buffers: attach() none");
    ItemMemory memory = new ItemMemory();
    Ticket ticket = null;
    boolean kept = false;
    message.begin();
    try {
      // An answer with a LONG item cannot wait for room, so copies stay AUTO items.
      int items =
          message.prepareItems(
              ripc, memory, false, true, new ReturnBuffer[0], () -> Long.MAX_VALUE);
      ticket = new Ticket(null, ripc, memory.lent, true);
      RipcException.check(
          binding.requestReply(
              open, code, message.memory.items(), items, message.memory.ticketAddress()));
      if (message.memory.ticketHandle() == 0) return Ticket.DONE;
      ticket.sent(message.memory.ticketHandle());
      service.sender().keepQuiet(ticket);
      kept = true;
      // The running thread may be waiting without a limit.
      if (runner() != Thread.currentThread()) binding.interrupt(service.handle());
      return ticket;
    } finally {
      if (!kept) CountedMemory.releaseAll(memory.lent);
      CountedMemory.releaseAll(memory.used);
      Reference.reachabilityFence(memory);
      message.end();
    }
  }

  // ---- The thread that runs the endpoint ----

  @Override
  public Thread runner() {
    return runner.get();
  }

  @Override
  public boolean tryTurn() {
    return runner.compareAndSet(null, Thread.currentThread());
  }

  @Override
  public void endTurn() {
    runner.set(null);
  }

  @Override
  public int run(long nanos) throws InterruptedException {
    // Requests need the context, even if a handler closes it.
    ripc.enter();
    try {
      chunk = chunks.withRoom(CHUNK, FEW);
      int found = service.waiting().await(wait, nanos);
      if (found != 0) chunk.end = tell(found);
      return found;
    } finally {
      ripc.guard().leave();
    }
  }

  // One native wait. Returns the number of records, or a status as a negative number.
  private int runOnce(long timeout) {
    boolean looks = service.sender().settle() != 0 && (timeout < 0 || timeout > LOOK);
    enter();
    try {
      int status =
          binding.rpcRunRecords(
              handle,
              looks ? LOOK : timeout,
              chunk.block.address + chunk.end,
              chunk.size() - chunk.end,
              count.address);
      if (looks && status == Status.TIMEOUT.code()) status = Status.INTERRUPTED.code();
      return status == 0 ? (int) count.bytes.getLong(0) : -status;
    } finally {
      guard.leave();
    }
  }

  private static int sizeOf(Chunk records, int at) {
    return CallRecord.BYTES
        + records.block.bytes.getInt(at + CallRecord.BYTES + Record.RECORD_SIZE);
  }

  private static boolean isEnd(Chunk records, int at) {
    return records.block.bytes.getInt(at + CallRecord.KIND) == CallRecord.END;
  }

  // Returns where the records end.
  private int tell(int found) {
    int at = chunk.end;
    for (int index = 0; index < found; ++index) {
      int next = at + sizeOf(chunk, at);
      if (isEnd(chunk, at)) {
        ended(chunk, at, answer, true);
      } else {
        requested(at, index == 0);
      }
      at = next;
    }
    return at;
  }

  private void requested(int at, boolean first) {
    request.load(chunk, at);
    long deadline = chunk.block.bytes.getLong(at + CallRecord.DEADLINE);
    // The handlers of earlier requests may have taken long.
    if (!first && deadline != Layout.FOREVER && System.nanoTime() >= deadline) {
      request.end(Status.TIMEOUT, false);
      return;
    }
    events.requested((int) chunk.block.bytes.getLong(at + CallRecord.USER), request);
    if (!request.isEnded()) request.end(Status.CANCELLED, true);
  }

  private void ended(Chunk records, int at, Message message, boolean run) {
    CallSlots.Slot slot = slots.find(records.block.bytes.getLong(at + CallRecord.USER));
    Object caller = slot.caller;
    ReturnBuffer[] returns = slot.returns == null ? null : slot.returns.getAndSet(null);
    slots.giveBack(slot);
    message.loadCall(service, records, at + CallRecord.BYTES, returns, null);
    try {
      events.ended(
          caller,
          message,
          records.block.bytes.getInt(at + CallRecord.OUTCOME),
          Status.of(records.block.bytes.getInt(at + CallRecord.STATUS)),
          records.block.bytes.getInt(at + CallRecord.CODE),
          run);
    } finally {
      message.close();
    }
  }

  @Override
  public Message own(Message other) {
    return other.own(other.handle());
  }

  @Override
  public void statistics(NativeBlock block) {
    enter();
    try {
      RipcException.check(binding.rpcStatistics(handle, block.address));
    } finally {
      guard.leave();
    }
  }

  @Override
  public void methods(Consumer<ByteBuffer> visitor) {
    enter();
    try {
      Callbacks.visit(
          found -> visitor.accept(binding.view(found, Layout.MethodStatistics.BYTES)),
          user -> RipcException.check(binding.rpcMethods(handle, user)));
    } finally {
      guard.leave();
    }
  }

  // ---- The end ----

  @Override
  public boolean isClosed() {
    return guard.isClosed();
  }

  @Override
  public boolean close() {
    return Callbacks.close(guard, () -> false, () -> binding.interrupt(service.handle()));
  }

  private void destroy() {
    binding.rpcClose(handle);
    Callbacks.run(this::tellTheRest);
    binding.rpcDestroy(handle);
    service.endpoint(null);
    service.receiver().end();
    service.guard().leave();
  }

  // The thread that runs the endpoint may be in a handler, which uses the records of its run.
  private void tellTheRest() {
    NativeBlock found = new NativeBlock(8);
    Message message = new Message(null, true);
    for (; ; ) {
      Chunk rest = new Chunk(CHUNK);
      int status = binding.rpcRunRecords(handle, 0, rest.block.address, rest.size(), found.address);
      if (status != 0) return;
      for (int at = 0, left = (int) found.bytes.getLong(0); left > 0; --left) {
        if (isEnd(rest, at)) {
          ended(rest, at, message, false);
        } else {
          binding.requestRefuse(
              rest.block.bytes.getLong(at + CallRecord.REQUEST), Status.CLOSED.code());
        }
        at += sizeOf(rest, at);
      }
    }
  }

  @Override
  public boolean isLost() {
    return ripc.isLost();
  }
}
