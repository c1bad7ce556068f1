// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.function.Predicate;
import org.eclipse.jetty.io.ByteBufferPool;
import org.eclipse.jetty.io.Connection;
import org.eclipse.jetty.server.AbstractConnector;
import org.eclipse.jetty.server.ConnectionFactory;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;
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
  // Those of clients to which the way is being looked for. Guarded by itself.
  private final Map<ServiceId, List<Opening>> openings = new HashMap<>();

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
    super(server, null, null, pool(server, ripc), 0, orHttp(factories));
    this.ripc = ripc;
    completionExecutor = new CompletionExecutor(super.getExecutor());
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
   * Which services may connect: called with the ID of each, in the receiving thread. An ID is a
   * name and no proof: it sorts clients that the context admits, and keeps out none that means
   * harm.
   */
  public void setAccess(Predicate<ServiceId> policy) {
    access = Objects.requireNonNull(policy);
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
  public ServiceId getServiceId() {
    Multiplexer started = multiplexer;
    return started == null ? null : started.service().id();
  }

  /**
   * How many bytes above {@code shortLimit} were copied to be sent, since the start: answers on the
   * heap, and those up to {@code copyLimit} ({@link StreamOptions}).
   */
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
    super.doStop();
    removeBean(multiplexer);
    multiplexer = null;
  }

  private Runnable open(Message message, Frame frame) {
    ServiceId client = message.source();
    int number = message.tag();
    Frame.Reason reason = Frame.Reason.NONE;
    if (isShutdown() || !isAccepting() || !isRunning()) {
      reason = Frame.Reason.STOPPING;
    } else if (!access.test(client)) {
      reason = Frame.Reason.REFUSED;
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
    synchronized (openings) {
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
    RuntimeException gone = null;
    try {
      path = pathTo(client);
    } catch (RuntimeException problem) {
      gone = problem;
      if (problem instanceof RipcException slow && isSlow(slow)) {
        LOG.warn("{} asked for a connection and does not answer", client, gone);
      } else {
        LOG.debug("{} is gone", client, gone);
      }
    }
    List<Opening> found;
    synchronized (openings) {
      found = openings.remove(client);
    }
    for (Opening each : found) {
      if (path != null) {
        accept(each, path);
      } else {
        each.message.close();
        each.endPoint.fail(new IOException(gone));
        each.endPoint.close(gone);
      }
    }
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
      LOG.warn("A connection of {} cannot be made", endPoint.peer(), problem);
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
