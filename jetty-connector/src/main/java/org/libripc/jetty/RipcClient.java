// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketTimeoutException;
import java.nio.channels.ClosedChannelException;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.eclipse.jetty.client.CompletableResponseListener;
import org.eclipse.jetty.client.ContentResponse;
import org.eclipse.jetty.client.HttpClient;
import org.eclipse.jetty.client.Request;
import org.eclipse.jetty.util.Promise;
import org.eclipse.jetty.util.annotation.ManagedAttribute;
import org.eclipse.jetty.util.annotation.ManagedObject;
import org.eclipse.jetty.util.component.ContainerLifeCycle;
import org.eclipse.jetty.util.thread.QueuedThreadPool;
import org.eclipse.jetty.util.thread.ScheduledExecutorScheduler;
import org.eclipse.jetty.util.thread.Scheduler;
import org.libripc.Ripc;
import org.libripc.RipcException;
import org.libripc.Service;
import org.libripc.ServiceBuilder;
import org.libripc.ServiceId;

/**
 * The client's side of stream connections: a service of its own, over which it connects to any
 * number of servers. {@link #transport} makes what an {@code HttpClient} takes.
 *
 * <p>It registers its service when it starts and closes it, with all connections, when it stops;
 * add it to the {@code HttpClient} as a bean, so that it is started and stopped with it. The
 * context is the application's. The setters are for before the start; the rest is for any thread.
 */
@ManagedObject("The client's side of stream connections of libripc")
public final class RipcClient extends ContainerLifeCycle {
  // That can all have unread messages at once; it is no limit of connections.
  private static final int MOST_CONNECTIONS = 8192;

  private final Ripc ripc;
  // A server may still have connections of a process that died and had the same name.
  private final AtomicInteger nextNumber = new AtomicInteger(ThreadLocalRandom.current().nextInt());
  private StreamOptions options = StreamOptions.DEFAULT;
  private String serviceName;
  private Executor executor;
  private Scheduler scheduler;
  private volatile Multiplexer multiplexer;

  /** Of a context. */
  public RipcClient(Ripc ripc) {
    this.ripc = Objects.requireNonNull(ripc, "ripc");
  }

  /** With threads and timers of the application: null, its own. */
  public RipcClient(Ripc ripc, Executor threads, Scheduler timer) {
    this(ripc);
    executor = threads;
    scheduler = timer;
  }

  /** Where its threads come from; a pool of its own if it is not set. */
  public void setExecutor(Executor threads) {
    executor = threads;
  }

  /** For time-outs; one of its own if it is not set. */
  public void setScheduler(Scheduler timer) {
    scheduler = timer;
  }

  /** The name of its service, for servers that admit some only; a random ID if it is not set. */
  public void setServiceName(String name) {
    ServiceId.ofName(name);
    serviceName = name;
  }

  /** How connections use memory and time. */
  public void setOptions(StreamOptions stream) {
    options = Objects.requireNonNull(stream);
  }

  /** The ID that servers see; null while it is not started. */
  @ManagedAttribute("The ID that servers see")
  public ServiceId getServiceId() {
    Multiplexer started = multiplexer;
    return started == null ? null : started.service().id();
  }

  /** How many parts of answers were written into return buffers: {@link StreamOptions}. */
  @ManagedAttribute("The parts of answers that were written into return buffers")
  public long getReturnedParts() {
    Multiplexer started = multiplexer;
    return started == null ? 0 : started.returnedParts();
  }

  /** How many connections there are. */
  @ManagedAttribute("The connections that there are")
  public int getConnections() {
    Multiplexer started = multiplexer;
    return started == null ? 0 : started.connections();
  }

  /** A transport to a server. Those to one server are equal. */
  public RipcTransport transport(ServiceId server) {
    return new RipcTransport(this, server);
  }

  /** The same by name. */
  public RipcTransport transport(String serverName) {
    return transport(ServiceId.ofName(serverName));
  }

  /**
   * Makes this the way to hosts of a suffix: the client's requests to {@code http://NAME.ripc/} go
   * to the service NAME, for the suffix ".ripc", without a {@link #transport}; others as before. So
   * do requests that Jetty makes itself, when it follows a redirect or answers a challenge, which
   * go by their URI only. Adds this to the client as a bean.
   *
   * @param client before its start, and with its own {@code SocketAddressResolver} if it has one
   * @param suffix of hosts, in lower case as they are, with its dot
   */
  public void installIn(HttpClient client, String suffix) {
    client.addBean(this);
    client.setSocketAddressResolver(new ServiceResolver(this, client, suffix));
  }

  /**
   * Sends a request of an {@code HttpClient} and waits for its answer, as {@link Request#send()}
   * does, but receives the answer in the calling thread: {@link #await}.
   *
   * @param request with a {@link #transport} of this client
   * @throws TimeoutException if the request's own time-out is over
   */
  public ContentResponse send(Request request)
      throws InterruptedException, TimeoutException, ExecutionException {
    CompletableResponseListener listener = new CompletableResponseListener(request);
    try {
      if (request.getBody() == null) {
        return await(listener::send, Long.MAX_VALUE, TimeUnit.NANOSECONDS);
      }
      return await(listener.send(), Long.MAX_VALUE, TimeUnit.NANOSECONDS);
    } catch (ExecutionException problem) {
      request.abort(problem);
      if (problem.getCause() instanceof TimeoutException late) throw late;
      throw problem;
    } catch (InterruptedException stopped) {
      request.abort(stopped);
      throw stopped;
    }
  }

  /**
   * Waits for what the listener of a request completes, as {@link CompletableFuture#get(long,
   * TimeUnit)} does. Meanwhile the calling thread receives for this client, if it is the only one
   * in such a wait: so the server wakes it directly, and not a thread of the client that wakes it
   * in turn, which is most of the time of a short request.
   *
   * <p>Listeners of this request, and of others of this client, may be called in the waiting
   * thread: they must not wait for what that thread does next. While one blocks, other answers of
   * this client may be delayed by some 20 ms. Any thread, any number at once.
   *
   * @param answer completed by any thread, at any time
   * @throws TimeoutException if it is not completed in this time; the request goes on
   */
  public <T> T await(CompletableFuture<T> answer, long time, TimeUnit unit)
      throws InterruptedException, ExecutionException, TimeoutException {
    Multiplexer started = multiplexer;
    if (started == null) return answer.get(time, unit);
    return started.threads().await(answer, unit.toNanos(time));
  }

  /**
   * The same for a request that it sends itself: then no answer is too early for the thread to
   * receive it. Nobody receives for this client while it is being sent, if that takes less than
   * some 20 ms: what blocks, as the body of a request may, is better sent before.
   *
   * @param sending sends the request; returns what will be completed
   */
  public <T> T await(Supplier<CompletableFuture<T>> sending, long time, TimeUnit unit)
      throws InterruptedException, ExecutionException, TimeoutException {
    Multiplexer started = multiplexer;
    if (started == null) return sending.get().get(time, unit);
    return started.threads().await(sending, unit.toNanos(time));
  }

  @Override
  protected void doStart() throws Exception {
    if (executor == null) {
      QueuedThreadPool threads = new QueuedThreadPool();
      threads.setName("ripc-client");
      executor = threads;
    }
    if (scheduler == null) scheduler = new ScheduledExecutorScheduler("ripc-client-timer", true);
    if (getBean(Executor.class) == null) addBean(executor);
    if (getBean(Scheduler.class) == null) addBean(scheduler);
    ServiceBuilder builder =
        ripc.service()
            .queueBytes(options.queueBytes())
            .maxMessages(options.messages(MOST_CONNECTIONS));
    if (serviceName != null) builder.name(serviceName);
    Service service = builder.register();
    try {
      multiplexer = new Multiplexer(service, options, executor, scheduler, null);
      addBean(multiplexer, true);
      super.doStart();
    } catch (Throwable problem) {
      service.close();
      throw problem;
    }
  }

  @Override
  protected void doStop() throws Exception {
    Multiplexer stopped = multiplexer;
    multiplexer = null;
    super.doStop();
    removeBean(stopped);
  }

  /**
   * Connects to a server.
   *
   * @param timeoutMillis until it is given up; 0: no limit
   * @param promise gets the end of the connection, open, or why there is none; in any thread
   */
  void connect(ServiceId server, long timeoutMillis, Promise<RipcEndPoint> promise) {
    Multiplexer started = multiplexer;
    if (started == null) {
      promise.failed(
          new ConnectException(
              "The RipcClient is not started: start it, or add it to the HttpClient."));
      return;
    }
    Attempt attempt = new Attempt(started, promise);
    do {
      attempt.endPoint = new RipcEndPoint(started, server, nextNumber(), true, attempt);
    } while (!started.add(attempt.endPoint));
    if (!started.isRunning() || started.isStopping())
      attempt.endPoint.close(); // it may be too late
    if (timeoutMillis > 0) {
      attempt.timeout =
          scheduler.schedule(
              () -> attempt.endPoint.fail(late(server, timeoutMillis)),
              timeoutMillis,
              TimeUnit.MILLISECONDS);
    }
    started.execute(attempt);
  }

  private static IOException late(ServiceId server, long millis) {
    return new SocketTimeoutException(
        server
            + " has not accepted the connection in "
            + millis
            + " ms: see whether it takes connections, or give it longer"
            + " (HttpClient.setConnectTimeout).");
  }

  // Never 0, which is the number in the address of a server.
  private int nextNumber() {
    return nextNumber.updateAndGet(number -> number == -1 ? 1 : number + 1);
  }

  private static final class Attempt implements RipcEndPoint.Listener, Runnable {
    private final Multiplexer multiplexer;
    private final Promise<RipcEndPoint> promise;
    private RipcEndPoint endPoint;
    private volatile Scheduler.Task timeout;

    Attempt(Multiplexer multiplexer, Promise<RipcEndPoint> promise) {
      this.multiplexer = multiplexer;
      this.promise = promise;
    }

    @Override
    public void run() {
      if (!endPoint.isOpen()) return;
      try {
        endPoint.out().path(multiplexer.shortLimit(endPoint.peer()));
        endPoint.out().control(Frame.Type.OPEN, 0, Frame.Reason.NONE);
      } catch (RipcException problem) {
        endPoint.fail(new IOException(problem));
      }
    }

    @Override
    public void accepted() {
      if (timeout != null) timeout.cancel();
      multiplexer.execute(() -> promise.succeeded(endPoint));
    }

    @Override
    public void refused(IOException cause) {
      if (timeout != null) timeout.cancel();
      endPoint.close();
      IOException problem = cause;
      if (!(cause instanceof SocketTimeoutException)) {
        problem = new ConnectException("No connection to " + endPoint.peer() + ": " + why(cause));
        problem.initCause(cause);
      }
      IOException failure = problem;
      multiplexer.deliver(() -> promise.failed(failure));
    }

    private static String why(IOException cause) {
      return cause instanceof ClosedChannelException
          ? "the client was stopped"
          : cause.getMessage();
    }
  }
}
