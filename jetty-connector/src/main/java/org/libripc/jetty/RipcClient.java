// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.net.ConnectException;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
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
import org.libripc.ServiceBuilder;
import org.libripc.ServiceId;
import org.libripc.stream.StreamOptions;
import org.libripc.stream.StreamService;

/**
 * The client's side of stream connections: it has its own service, over which it connects to any
 * number of servers. {@link #transport} makes the transports that an {@code HttpClient} takes.
 *
 * <p>It registers its service when it starts and closes it, with all connections, when it stops.
 * Add it to the {@code HttpClient} as a bean, so that both start and stop together. The context
 * belongs to the application. Call the setters before the start; any thread may call the other
 * methods.
 */
@ManagedObject("The client's side of stream connections of libripc")
public final class RipcClient extends ContainerLifeCycle {
  private final Ripc ripc;
  private StreamOptions options = StreamOptions.DEFAULT;
  private String serviceName;
  private Executor executor;
  private Scheduler scheduler;
  private volatile StreamComponent component;

  /** Makes a client in a context. */
  public RipcClient(Ripc ripc) {
    this.ripc = Objects.requireNonNull(ripc, "ripc");
  }

  /** Makes a client with threads and timers of the application; null for its own. */
  public RipcClient(Ripc ripc, Executor threads, Scheduler timer) {
    this(ripc);
    executor = threads;
    scheduler = timer;
  }

  /** Sets where its threads come from; by default a pool of its own. */
  public void setExecutor(Executor threads) {
    executor = threads;
  }

  /** Sets the scheduler for time-outs; by default one of its own. */
  public void setScheduler(Scheduler timer) {
    scheduler = timer;
  }

  /**
   * Sets the name of its service, for servers that admit only some; by default the ID is random.
   */
  public void setServiceName(String name) {
    ServiceId.ofName(name);
    serviceName = name;
  }

  /** Sets how connections use memory and time. */
  public void setOptions(StreamOptions stream) {
    options = Objects.requireNonNull(stream);
  }

  /** The ID that servers see; null while it is not started. */
  @ManagedAttribute("The ID that servers see")
  public ServiceId getServiceId() {
    StreamService started = streams();
    return started == null ? null : started.service().id();
  }

  /** How many parts of answers were written into return buffers: see {@link StreamOptions}. */
  @ManagedAttribute("The parts of answers that were written into return buffers")
  public long getReturnedParts() {
    StreamService started = streams();
    return started == null ? 0 : started.returnedParts();
  }

  /** How many connections there are. */
  @ManagedAttribute("The connections that there are")
  public int getConnections() {
    StreamService started = streams();
    return started == null ? 0 : started.streams().size();
  }

  /** A transport to a server. All transports to one server are equal. */
  public RipcTransport transport(ServiceId server) {
    return new RipcTransport(this, server);
  }

  /** A transport to a server with this name. */
  public RipcTransport transport(String serverName) {
    return transport(ServiceId.ofName(serverName));
  }

  /**
   * Routes requests for hosts with a suffix over this. For the suffix ".ripc", the client's
   * requests to {@code http://NAME.ripc/} go to the service NAME, without a {@link #transport};
   * other requests go as before. The same holds for requests that Jetty makes itself, when it
   * follows a redirect or answers a challenge: only their URI counts. Adds this to the client as a
   * bean.
   *
   * @param client not yet started, and with its own {@code SocketAddressResolver} set if it has one
   * @param suffix of host names, in lower case as they are, including its dot
   */
  public void installIn(HttpClient client, String suffix) {
    client.addBean(this);
    client.setSocketAddressResolver(new ServiceResolver(this, client, suffix));
  }

  /**
   * Sends a request of an {@code HttpClient} and waits for its answer, as {@link Request#send()}
   * does. But the calling thread receives the answer: see {@link #await}.
   *
   * @param request with a {@link #transport} of this client
   * @throws TimeoutException if the request's own time-out expires
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
   * TimeUnit)} does. Meanwhile the calling thread receives for this client, if no other thread is
   * in such a wait. So the server wakes it directly, instead of a thread of the client that would
   * then wake it. That detour takes most of the time of a short request.
   *
   * <p>The waiting thread may call listeners of this request, and of other requests of this client.
   * They must not wait for what that thread does next. While a listener blocks, other answers of
   * this client may be delayed by about 20 ms. Any thread, any number at once.
   *
   * @param answer completed by any thread, at any time
   * @throws TimeoutException if it is not completed in this time; the request goes on
   */
  public <T> T await(CompletableFuture<T> answer, long time, TimeUnit unit)
      throws InterruptedException, ExecutionException, TimeoutException {
    StreamService started = streams();
    if (started == null) return answer.get(time, unit);
    return started.await(answer, time, unit);
  }

  /**
   * Sends a request, then waits in the same way. So the calling thread receives even the earliest
   * answer. Nobody receives for this client while the request is being sent, if that takes less
   * than about 20 ms. So it is better to send a request before the wait if sending may block, as a
   * body may.
   *
   * @param sending sends the request; returns what will be completed
   */
  public <T> T await(Supplier<CompletableFuture<T>> sending, long time, TimeUnit unit)
      throws InterruptedException, ExecutionException, TimeoutException {
    StreamService started = streams();
    if (started == null) return sending.get().get(time, unit);
    return started.await(sending, time, unit);
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
    ServiceBuilder builder = ripc.service();
    if (serviceName != null) builder.name(serviceName);
    removeBean(component); // of a start that has failed
    component =
        new StreamComponent(StreamService.builder(builder).options(options), executor, scheduler);
    addBean(component, true);
    super.doStart();
  }

  @Override
  protected void doStop() throws Exception {
    StreamComponent stopped = component;
    component = null;
    super.doStop();
    removeBean(stopped);
  }

  /**
   * Connects to a server.
   *
   * @param timeoutMillis until the attempt is given up; 0 for no limit
   * @param promise gets the open end of the connection, or why there is none; in any thread
   */
  void connect(ServiceId server, long timeoutMillis, Promise<RipcEndPoint> promise) {
    StreamService started = streams();
    if (started == null) {
      promise.failed(
          new ConnectException(
              "The RipcClient is not started: start it, or add it to the HttpClient."));
      return;
    }
    started
        .connect(server, timeoutMillis, TimeUnit.MILLISECONDS)
        .whenComplete(
            (stream, problem) -> {
              if (problem != null) {
                promise.failed(problem);
              } else {
                promise.succeeded(new RipcEndPoint(scheduler, stream, true, endPoint -> {}));
              }
            });
  }

  /** Null while it is not started. */
  private StreamService streams() {
    StreamComponent started = component;
    return started == null ? null : started.streams();
  }
}
