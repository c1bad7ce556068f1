// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.libripc.Outgoing;
import org.libripc.RipcException;
import org.libripc.Service;
import org.libripc.ServiceId;
import org.libripc.Status;
import org.libripc.internal.Layout;
import org.libripc.internal.Leaks;
import org.libripc.internal.NativeBlock;
import org.libripc.internal.RpcEndpoint;
import org.libripc.internal.Spares;

/**
 * Makes calls from a service, and answers calls to it. It takes over the service's receiving:
 * messages that are not calls are dropped and counted. Both sides of a call need an Rpc.
 *
 * <p>Nothing happens unless a thread is in {@link #run} (or {@link #serve}, {@link #callWait}): it
 * receives, runs handlers and ends calls. One thread at a time does that. Any thread may make,
 * cancel and answer calls.
 *
 * <p>A call's arguments are an {@link Outgoing}, of which the items and the return buffers are
 * used. A call that cannot begin throws, and did not run. Close the Rpc after use; if the
 * application loses it, the garbage collector finds, closes and reports it, and its service too.
 */
public final class Rpc implements AutoCloseable {
  /** What the garbage collector's net needs to know. */
  private record Net(RpcEndpoint endpoint, ServiceId id, Throwable trace) implements Runnable {
    @Override
    public void run() {
      if (endpoint.close() || endpoint.isLost()) Leaks.report("Rpc", " of " + id, trace);
    }
  }

  // The longest delay until a waiting thread notices that its turn has come.
  private static final long SLICE = 10_000_000;
  private static final Spares<Outgoing> SINGLE = new Spares<>(Outgoing::new);
  private static final CallOptions DEFAULT = new CallOptions();

  private final Service service;
  private final Dispatch dispatch = new Dispatch();
  private final RpcEndpoint endpoint;
  private final Cleaner.Cleanable cleanable;
  private final Queue<Thread> waiting = new ConcurrentLinkedQueue<>(); // for a turn to run

  Rpc(Service service, int slots, int queue, int maxSessions) {
    this.service = service;
    endpoint = RpcEndpoint.Door.open(service, slots, queue, maxSessions, dispatch);
    dispatch.start(endpoint);
    cleanable = Leaks.CLEANER.register(this, new Net(endpoint, service.id(), Leaks.trace()));
  }

  /**
   * Opens the endpoint of a service. The service must not have one already, and nobody may be
   * receiving from it. The endpoint ends with the service at the latest.
   *
   * @throws IllegalStateException if another thread receives from the service, or it has an
   *     endpoint
   */
  public static Rpc open(Service service) {
    return of(service).open();
  }

  /** The same with options. */
  public static RpcBuilder of(Service service) {
    return new RpcBuilder(service);
  }

  /** The service whose calls these are. */
  public Service service() {
    return service;
  }

  /** Whether {@link #close} was called, here or on the service. */
  public boolean isClosed() {
    return endpoint.isClosed();
  }

  // ---- Answering calls ----

  /**
   * Answers the calls of a method, which are otherwise refused with {@link
   * org.libripc.Status#UNSUPPORTED}. The handler runs in the thread that runs the endpoint, where
   * it must not wait for other calls. Its {@link Request} belongs to it until it returns. Makes no
   * garbage.
   *
   * @throws IllegalStateException if another thread is running the endpoint
   * @throws RipcException {@link org.libripc.Status#INVALID_ARGUMENT} if the method has a handler
   */
  public Rpc on(int method, RequestHandler handler) {
    return add(method, null, handler);
  }

  /**
   * The same with a handler that runs in an executor, where it may wait. The handler owns its
   * {@link Request}. A request that the executor rejects did not run and ends with {@link
   * org.libripc.Status#AGAIN}; one whose time is over before it starts ends with {@link
   * org.libripc.Status#TIMEOUT}.
   */
  public Rpc on(int method, Executor executor, RequestHandler handler) {
    return add(method, Objects.requireNonNull(executor), handler);
  }

  private Rpc add(int method, Executor executor, RequestHandler handler) {
    Objects.requireNonNull(handler);
    boolean inHandler = endpoint.runner() == Thread.currentThread();
    if (!inHandler && !endpoint.tryTurn()) {
      throw new IllegalStateException(
          "Another thread runs this Rpc: add handlers before it does, or in a handler.");
    }
    try {
      endpoint.handle(method, dispatch.add(executor, handler));
    } finally {
      if (!inHandler) endTurn();
      Reference.reachabilityFence(this);
    }
    return this;
  }

  // ---- Making calls ----

  /**
   * Begins a call. Waits for the network in one case: over sockets, for the connection of a link
   * whose first argument above a datagram this is. The calls of a thread to one service begin in
   * order, but may run and end in any order.
   *
   * @throws RipcException.NoRoom if as many calls to this service wait as {@link RpcBuilder#queue}
   *     allows: run, then call again
   * @throws RipcException.TimedOut if there is no time, or the parent has none left
   * @throws RipcException {@link org.libripc.Status#TOO_LARGE}, {@link
   *     org.libripc.Status#NO_MEMORY}, {@link org.libripc.Status#FENCED}, {@link
   *     org.libripc.Status#CLOSED}, {@link org.libripc.Status#INVALID_ARGUMENT}, and as {@link
   *     Service#send} if the service has just ended
   */
  public RpcCall call(ServiceId to, int method, Outgoing arguments, CallOptions options) {
    RpcCall call = new RpcCall(endpoint);
    return call.begun(begin(to, method, arguments, options, call));
  }

  /** The same without options. */
  public RpcCall call(ServiceId to, int method, Outgoing arguments) {
    return call(to, method, arguments, DEFAULT);
  }

  /** The same with one argument. */
  public RpcCall call(ServiceId to, int method, ByteBuffer argument) {
    Outgoing arguments = SINGLE.take();
    try {
      return call(to, method, arguments.add(argument), DEFAULT);
    } finally {
      SINGLE.giveBack(arguments.clear());
    }
  }

  /**
   * The same as {@link #call}, with a handler that is called at the end. Makes no garbage if the
   * objects are reused.
   *
   * @return the call's number, for {@link #cancel}
   */
  public long callThen(
      ServiceId to, int method, Outgoing arguments, CallOptions options, CallHandler handler) {
    return begin(to, method, arguments, options, Objects.requireNonNull(handler));
  }

  /** The same without options. */
  public long callThen(ServiceId to, int method, Outgoing arguments, CallHandler handler) {
    return callThen(to, method, arguments, DEFAULT, handler);
  }

  private long begin(
      ServiceId to, int method, Outgoing arguments, CallOptions options, Object caller) {
    try {
      return endpoint.call(
          to,
          method,
          arguments,
          options.timeout,
          options.idempotent,
          options.parent == null ? null : options.parent.handle(),
          caller);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * The same as {@link #call}, and waits for the end. It runs the endpoint meanwhile, unless
   * another thread does. If the thread is interrupted, its call is cancelled. {@link
   * Service#interrupt} does not end the wait, and takes effect in the next {@link #run}.
   *
   * @return the result, which the caller has to close
   * @throws IllegalStateException inside a handler that the endpoint runs, which would wait for
   *     itself
   */
  public CallResult callWait(ServiceId to, int method, Outgoing arguments, CallOptions options)
      throws InterruptedException {
    checkNotInside();
    return await(call(to, method, arguments, options));
  }

  /** The same without options. */
  public CallResult callWait(ServiceId to, int method, Outgoing arguments)
      throws InterruptedException {
    return callWait(to, method, arguments, DEFAULT);
  }

  /** The same with one argument. */
  public CallResult callWait(ServiceId to, int method, ByteBuffer argument)
      throws InterruptedException {
    checkNotInside();
    return await(call(to, method, argument));
  }

  private CallResult await(RpcCall call) throws InterruptedException {
    call.wakes(Thread.currentThread());
    boolean interrupted = false;
    boolean interruptedRun = false;
    try {
      while (!call.isDone()) {
        try {
          if (!takeTurn(Layout.FOREVER, call)) continue;
          try {
            while (!call.isDone()) endpoint.run(Layout.FOREVER);
          } catch (RipcException problem) {
            interruptedRun |= problem.status() == Status.INTERRUPTED;
            // Anything else that keeps it from running also ends the call.
            LockSupport.parkNanos(this, SLICE / 10);
          } finally {
            endTurn();
            Thread next = waiting.peek();
            if (next != null) LockSupport.unpark(next);
          }
        } catch (InterruptedException problem) {
          if (call.cancel(true)) throw problem;
          interrupted = true; // The call has ended, and a run has to tell.
        }
      }
    } finally {
      if (interrupted) Thread.currentThread().interrupt();
      if (interruptedRun) service.interrupt();
    }
    return call.join();
  }

  /**
   * Ends a call of {@link #callThen}. The thread that runs the endpoint calls its handler with
   * {@link org.libripc.Status#CANCELLED}; return buffers are then the application's again.
   *
   * @return false if there is no such call, or it has ended
   */
  public boolean cancel(long call) {
    try {
      return endpoint.cancel(call);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  // ---- Running ----

  /**
   * Waits until requests or ends of calls have come, runs their handlers and completes the calls.
   * If another thread is running the endpoint, waits for its turn.
   *
   * @return how many requests and ends there were; 0 if none came in this time
   * @throws IllegalStateException inside a handler that it runs
   * @throws RipcException {@link org.libripc.Status#INTERRUPTED} after {@link Service#interrupt};
   *     {@link org.libripc.Status#FENCED}, {@link org.libripc.Status#CLOSED}
   */
  public int run(long time, TimeUnit unit) throws InterruptedException {
    return run(Math.max(0, unit.toNanos(time)));
  }

  /** Runs until it is closed. */
  public void serve() throws InterruptedException {
    try {
      while (true) run(Layout.FOREVER);
    } catch (RipcException.Closed problem) {
      if (!isClosed()) throw problem;
    }
  }

  private int run(long nanos) throws InterruptedException {
    checkNotInside();
    long left = nanos;
    if (!endpoint.tryTurn()) {
      long started = System.nanoTime();
      if (!takeTurn(nanos, null)) return 0;
      if (nanos > 0) left = Math.max(0, nanos - (System.nanoTime() - started));
    }
    try {
      return endpoint.run(left);
    } finally {
      endTurn();
      Reference.reachabilityFence(this);
    }
  }

  private void checkNotInside() {
    if (endpoint.runner() == Thread.currentThread()) {
      throw new IllegalStateException(
          "This thread runs the Rpc, and would wait for itself: use call(), or a handler with an executor.");
    }
  }

  /** Returns false if the time is over, or the call has ended. */
  private boolean takeTurn(long nanos, RpcCall until) throws InterruptedException {
    if (endpoint.tryTurn()) return true;
    if (nanos == 0) return false;
    long started = System.nanoTime();
    Thread self = Thread.currentThread();
    waiting.add(self);
    try {
      for (; ; ) {
        if (Thread.interrupted()) throw new InterruptedException();
        if (until != null && until.isDone()) return false;
        if (endpoint.tryTurn()) return true;
        long left = nanos < 0 ? SLICE : nanos - (System.nanoTime() - started);
        if (left <= 0) return false;
        LockSupport.parkNanos(this, Math.min(left, SLICE));
      }
    } finally {
      waiting.remove(self);
    }
  }

  private void endTurn() {
    endpoint.endTurn();
  }

  /** Its counters. */
  public RpcStatistics statistics() {
    NativeBlock block = new NativeBlock(Layout.RPC_STATISTICS);
    block.bytes.putLong(0, Layout.RPC_STATISTICS);
    endpoint.statistics(block);
    Reference.reachabilityFence(this);
    long[] c = new long[Layout.RPC_STATISTICS / 8];
    for (int index = 0; index < c.length; ++index) c[index] = block.bytes.getLong(8 * index);
    return new RpcStatistics(
        c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10], c[11], c[12], c[13]);
  }

  /** The counters of each method that was called or has a handler, in ascending order. */
  public List<MethodStatistics> methods() {
    List<MethodStatistics> methods = new ArrayList<>();
    endpoint.methods(found -> methods.add(MethodStatistics.read(found)));
    Reference.reachabilityFence(this);
    return methods;
  }

  // ---- The end ----

  /**
   * Ends all calls, in this thread: those that were sent may have run, the others did not. Their
   * status is {@link org.libripc.Status#CLOSED}. Threads that run the endpoint return with {@link
   * RipcException.Closed}. Kept requests stay valid, but answering them throws the same. The
   * service goes on, and may be received from.
   *
   * <p>Waits until the calls that are running in other threads have returned, but not for handlers.
   */
  @Override
  public void close() {
    endpoint.close();
    cleanable.clean();
  }

  @Override
  public String toString() {
    return "Rpc of " + service;
  }
}
