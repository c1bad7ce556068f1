// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Predicate;
import org.eclipse.jetty.io.ByteBufferPool;
import org.eclipse.jetty.io.Connection;
import org.eclipse.jetty.server.AbstractConnector;
import org.eclipse.jetty.server.ConnectionFactory;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.util.annotation.ManagedAttribute;
import org.eclipse.jetty.util.annotation.ManagedObject;
import org.eclipse.jetty.util.thread.AutoLock;
import org.eclipse.jetty.util.thread.Scheduler;
import org.libripc.Message;
import org.libripc.Ripc;
import org.libripc.RipcException;
import org.libripc.Service;
import org.libripc.ServiceBuilder;
import org.libripc.ServiceId;
import org.libripc.Status;

/**
 * Serves Jetty's protocols under a service ID: clients connect to the ID, wherever it runs, over
 * shared memory, RDMA or sockets. Handlers, servlets and static files run unchanged, also beside
 * connectors of other kinds.
 *
 * <p>It registers its service when it starts and closes it when it stops. The context ({@link
 * Ripc}) is the application's; its options say who may connect: users of this host over shared
 * memory ({@code RipcBuilder.peers}), and over sockets and RDMA hosts with the same cluster key
 * ({@code RipcBuilder.clusterKeyFile}, {@code RipcBuilder.network}). {@link #setAccess} says which
 * service IDs of those.
 *
 * <p>The setters are for before the start.
 */
@ManagedObject("Serves Jetty's protocols under a service ID of libripc")
@SuppressWarnings("try") // locks
public final class RipcConnector extends AbstractConnector {
  private static final int DEFAULT_MAX_CONNECTIONS = 8192;
  // Of a second each, unless the context has another time for resolving.
  private static final int PATH_ATTEMPTS = 10;

  private final Ripc ripc;
  private String serviceName;
  private long serviceNumber;
  private boolean takeover;
  private Predicate<ServiceId> access = client -> true;
  private int maxConnections = DEFAULT_MAX_CONNECTIONS;
  private StreamOptions options = StreamOptions.DEFAULT;
  private final CompletionExecutor completionExecutor;
  private volatile Multiplexer multiplexer;
  private final Warnings warnings = new Warnings(LOG);
  private final AutoLock openingsLock = new AutoLock();
  // Those of clients to which the way is being looked for, or will be. Guarded by the lock.
  private final Map<ServiceId, List<Opening>> openings = new HashMap<>();
  // Of these, whose are accepted when connections are accepted again, and the way to them.
  // Likewise.
  private final Map<ServiceId, Integer> waiting = new HashMap<>();

  private record Opening(RipcEndPoint endPoint, Message message, Frame frame) {}

  /**
   * With a random ID, unless {@link #setServiceName} or {@link #setServiceNumber} says otherwise.
   *
   * <p>Buffers come from the server's pool if that is a {@link RipcByteBufferPool} of this context,
   * else from one that the connector makes.
   *
   * @param factories of the protocols, the default one first; HTTP/1.1 if there are none
   */
  public RipcConnector(Server server, Ripc ripc, ConnectionFactory... factories) {
    this(server, null, null, null, ripc, factories);
  }

  /** With the name of its service. */
  public RipcConnector(
      Server server, Ripc ripc, String serviceName, ConnectionFactory... factories) {
    this(server, ripc, factories);
    setServiceName(serviceName);
  }

  private static ByteBufferPool pool(Server server, Ripc ripc) {
    Objects.requireNonNull(ripc, "ripc");
    ByteBufferPool pool = server.getByteBufferPool();
    boolean same = pool instanceof RipcByteBufferPool && ((RipcByteBufferPool) pool).ripc() == ripc;
    return same ? pool : new RipcByteBufferPool(ripc);
  }

  private static ConnectionFactory[] orHttp(ConnectionFactory[] factories) {
    return factories.length != 0
        ? factories
        : new ConnectionFactory[] {new HttpConnectionFactory()};
  }

  /**
   * With threads, timers and buffers of its own.
   *
   * @param executor runs tasks; null: the server's
   * @param scheduler for time-outs; null: the server's
   * @param bufferPool best a {@link RipcByteBufferPool} of this context; null: as without
   * @param factories of the protocols, the default one first; HTTP/1.1 if there are none
   */
  public RipcConnector(
      Server server,
      Executor executor,
      Scheduler scheduler,
      ByteBufferPool bufferPool,
      Ripc ripc,
      ConnectionFactory... factories) {
    super(
        server,
        executor,
        scheduler,
        bufferPool == null ? pool(server, ripc) : bufferPool,
        0,
        orHttp(factories));
    this.ripc = Objects.requireNonNull(ripc, "ripc");
    completionExecutor = new CompletionExecutor(super.getExecutor());
  }

  /** The name of the service, of which its ID is made. */
  public void setServiceName(String name) {
    ServiceId.ofName(name);
    serviceName = name;
  }

  /** The well-known number of the service. */
  public void setServiceNumber(long number) {
    serviceNumber = number;
  }

  /** Whether the ID is taken from a living holder, which is fenced. */
  public void setTakeover(boolean on) {
    takeover = on;
  }

  /**
   * Which services may connect: called with the ID of each, in any thread. An ID is a name and no
   * proof: it sorts clients that the context admits, and keeps out none that means harm.
   */
  public void setAccess(Predicate<ServiceId> policy) {
    access = Objects.requireNonNull(policy);
  }

  /** The name of the service; null if it has none. */
  @ManagedAttribute("The name of the service")
  public String getServiceName() {
    return serviceName;
  }

  /** The most connections at once. */
  @ManagedAttribute("The most connections at once")
  public int getMaxConnections() {
    return maxConnections;
  }

  /** How connections use memory and time. */
  @ManagedAttribute("How connections use memory and time")
  public StreamOptions getOptions() {
    return options;
  }

  /** How many connections there are. */
  @ManagedAttribute("The connections that there are")
  public int getConnections() {
    Multiplexer started = multiplexer;
    return started == null ? 0 : started.connections();
  }

  /** How many clients wait for connections, because none are accepted now. */
  @ManagedAttribute("The clients that wait for connections, because none are accepted now")
  public int getWaitingClients() {
    try (AutoLock l = openingsLock.lock()) {
      return waiting.size();
    }
  }

  /** The most connections at once; further ones are refused. 8192 if it is not set. */
  public void setMaxConnections(int count) {
    if (count < 1) throw new IllegalArgumentException("at least one connection");
    maxConnections = count;
  }

  /** How connections use memory and time. */
  public void setOptions(StreamOptions stream) {
    options = Objects.requireNonNull(stream);
  }

  /** The ID of the service; null while it is not started. */
  @ManagedAttribute("The ID of the service")
  public ServiceId getServiceId() {
    Multiplexer started = multiplexer;
    return started == null ? null : started.service().id();
  }

  /**
   * How many bytes above {@code shortLimit} were copied to be sent, since the start: answers on the
   * heap, and those up to {@code copyLimit} ({@link StreamOptions}).
   */
  @ManagedAttribute("The bytes that were copied to be sent")
  public long getCopiedBytes() {
    Multiplexer started = multiplexer;
    return started == null ? 0 : started.copiedBytes();
  }

  /** The threads of the server; a connection's next task may be run by the one that asks for it. */
  @Override
  public Executor getExecutor() {
    return completionExecutor;
  }

  /** The context. */
  @Override
  public Ripc getTransport() {
    return ripc;
  }

  @Override
  public void dump(Appendable out, String indent) throws IOException {
    dumpObjects(
        out,
        indent,
        "service=" + serviceName + " " + getServiceId(),
        "maxConnections=" + maxConnections,
        "waitingClients=" + getWaitingClients(),
        "idleTimeout=" + getIdleTimeout(),
        options);
  }

  @Override
  protected void accept(int acceptor) {
    throw new UnsupportedOperationException("connections are accepted by the receiving thread");
  }

  @Override
  protected void doStart() throws Exception {
    ServiceBuilder builder =
        ripc.service()
            .queueBytes(options.queueBytes())
            .maxMessages(options.messages(maxConnections));
    if (serviceName != null) builder.name(serviceName);
    if (serviceNumber != 0) builder.id(serviceNumber);
    if (takeover) builder.takeover();
    Service service = builder.register();
    try {
      multiplexer =
          new Multiplexer(service, options, super.getExecutor(), getScheduler(), this::open);
      addBean(multiplexer, true);
      super.doStart();
    } catch (Throwable problem) {
      service.close();
      throw problem;
    }
  }

  @Override
  protected void doStop() throws Exception {
    List<Opening> gone = new ArrayList<>();
    takeWaiting()
        .forEach(
            (client, path) -> {
              for (Opening each : takeOpenings(client)) {
                each.endPoint.out().path(path); // it is told of the end
                gone.add(each);
              }
            });
    super.doStop(); // ends all connections
    gone.forEach(each -> each.message.close());
    removeBean(multiplexer);
    multiplexer = null;
  }

  /** While it is off, clients wait until it is on again, or their connect time-out. */
  @Override
  public void setAccepting(boolean accepting) {
    super.setAccepting(accepting);
    Multiplexer started = multiplexer;
    if (!accepting || started == null) return;
    takeWaiting()
        .forEach(
            (client, path) ->
                started.execute(() -> takeOpenings(client).forEach(each -> accept(each, path))));
  }

  /** Those that wait are refused. */
  @Override
  public CompletableFuture<Void> shutdown() {
    CompletableFuture<Void> done = super.shutdown();
    for (ServiceId client : takeWaiting().keySet()) {
      for (Opening each : takeOpenings(client)) refuse(each, Frame.Reason.STOPPING, null);
    }
    return done;
  }

  private Map<ServiceId, Integer> takeWaiting() {
    try (AutoLock l = openingsLock.lock()) {
      Map<ServiceId, Integer> taken = Map.copyOf(waiting);
      waiting.clear();
      return taken;
    }
  }

  private List<Opening> takeOpenings(ServiceId client) {
    try (AutoLock l = openingsLock.lock()) {
      return openings.remove(client);
    }
  }

  /** Whether the connections of a client wait, because none are accepted now. */
  private boolean waits(ServiceId client, int path) {
    try (AutoLock l = openingsLock.lock()) {
      if (isAccepting() || isShutdown() || !isRunning()) return false;
      waiting.put(client, path);
      return true;
    }
  }

  private Runnable open(Message message, Frame frame) {
    ServiceId client = message.source();
    int number = message.tag();
    Frame.Reason reason = Frame.Reason.NONE;
    if (isShutdown() || !isRunning()) {
      reason = Frame.Reason.STOPPING;
    } else if (multiplexer.connections() >= maxConnections) {
      reason = Frame.Reason.LIMIT;
    }
    if (reason != Frame.Reason.NONE) {
      message.close();
      multiplexer.refuse(client, number, reason);
      return null;
    }
    RipcEndPoint endPoint = new RipcEndPoint(multiplexer, client, number, false, new Closing());
    multiplexer.add(endPoint); // it counts from now on
    Opening opening = new Opening(endPoint, message, frame);
    try (AutoLock l = openingsLock.lock()) {
      List<Opening> others = openings.get(client);
      if (others != null) {
        others.add(opening);
        return null;
      }
      openings.put(client, new ArrayList<>(List.of(opening)));
    }
    return () -> accept(client);
  }

  private static boolean isSlow(RipcException problem) {
    return problem.status() == Status.TIMEOUT || problem.status() == Status.AGAIN;
  }

  // A client that has only started, on a busy machine, may be slow to answer.
  private int pathTo(ServiceId client) {
    for (int attempt = 1; ; ++attempt) {
      try {
        return multiplexer.shortLimit(client);
      } catch (RipcException problem) {
        if (!isSlow(problem) || attempt == PATH_ATTEMPTS || !isRunning()) throw problem;
      }
    }
  }

  // One thread looks for the way to a client, however many connections that wants meanwhile.
  private void accept(ServiceId client) {
    Integer path = null;
    Frame.Reason reason = Frame.Reason.ABORTED;
    Throwable problem = null;
    try {
      if (access.test(client)) {
        path = pathTo(client);
      } else {
        reason = Frame.Reason.REFUSED;
      }
    } catch (RipcException gone) {
      problem = gone;
      if (isSlow(gone)) {
        warnings.warn(client + " asked for a connection and does not answer", gone);
      } else {
        LOG.debug("{} is gone", client, gone);
      }
    } catch (RuntimeException | LinkageError failure) {
      problem = failure;
      warnings.warn("A connection of " + client + " cannot be accepted", failure);
    }
    if (path != null && waits(client, path)) return;
    for (Opening each : takeOpenings(client)) {
      if (path != null) {
        accept(each, path);
      } else {
        refuse(each, reason, problem);
      }
    }
  }

  private void refuse(Opening opening, Frame.Reason reason, Throwable problem) {
    RipcEndPoint endPoint = opening.endPoint;
    opening.message.close();
    if (!(problem instanceof RipcException))
      multiplexer.refuse(endPoint.peer(), endPoint.number(), reason);
    endPoint.fail(new IOException("The connection was not accepted", problem));
    endPoint.close(problem);
  }

  private void accept(Opening opening, int path) {
    RipcEndPoint endPoint = opening.endPoint;
    Message message = opening.message;
    if (!endPoint.isOpen()) {
      message.close();
      return;
    }
    endPoint.out().path(path);
    endPoint.setIdleTimeout(getIdleTimeout());
    try {
      Connection connection = getDefaultConnectionFactory().newConnection(this, endPoint);
      endPoint.setConnection(connection);
      endPoint.onOpen();
      onEndPointOpened(endPoint);
      endPoint.opened(message, opening.frame);
      connection.onOpen();
    } catch (Throwable problem) {
      warnings.warn("A connection of " + endPoint.peer() + " cannot be made", problem);
      multiplexer.refuse(endPoint.peer(), endPoint.number(), Frame.Reason.ABORTED);
      endPoint.fail(new IOException(problem));
      endPoint.close(problem);
      message.close();
    }
  }

  private final class Closing implements RipcEndPoint.Listener {
    @Override
    public void closed(RipcEndPoint endPoint) {
      onEndPointClosed(endPoint);
    }
  }
}
