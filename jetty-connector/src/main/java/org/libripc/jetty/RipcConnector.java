// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.IOException;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Predicate;
import org.eclipse.jetty.io.ByteBufferPool;
import org.eclipse.jetty.io.Connection;
import org.eclipse.jetty.server.AbstractConnector;
import org.eclipse.jetty.server.ConnectionFactory;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.util.annotation.ManagedAttribute;
import org.eclipse.jetty.util.annotation.ManagedObject;
import org.eclipse.jetty.util.thread.Scheduler;
import org.libripc.Peer;
import org.libripc.Ripc;
import org.libripc.ServiceBuilder;
import org.libripc.ServiceId;
import org.libripc.stream.ByteStream;
import org.libripc.stream.StreamOptions;
import org.libripc.stream.StreamService;
import org.libripc.stream.StreamServiceBuilder;

/**
 * Serves Jetty's protocols under a service ID: clients connect to the ID, wherever the server runs,
 * over shared memory, RDMA or sockets. Handlers, servlets and static files run unchanged, also next
 * to connectors of other kinds.
 *
 * <p>It registers its service when it starts and closes it when it stops. The context ({@link
 * Ripc}) belongs to the application. Its options say who may connect: users of this host over
 * shared memory ({@code RipcBuilder.peers}); over sockets and RDMA, hosts with the same cluster key
 * ({@code RipcBuilder.clusterKeyFile}, {@code RipcBuilder.network}). {@link #setAccess} says which
 * service IDs among those may connect.
 *
 * <p>Call the setters before the start.
 */
@ManagedObject("Serves Jetty's protocols under a service ID of libripc")
public final class RipcConnector extends AbstractConnector {
  /**
   * The attribute of a request that holds the proven {@link Peer} who sent it. Requests of other
   * connectors lack it.
   */
  public static final String PEER_ATTRIBUTE = "org.libripc.peer";

  private static final int DEFAULT_MAX_CONNECTIONS = 8192;

  private final Ripc ripc;
  private String serviceName;
  private long serviceNumber;
  private boolean takeover;
  private Predicate<ServiceId> access = client -> true;
  private Predicate<Peer> peerAccess = peer -> true;
  private int maxConnections = DEFAULT_MAX_CONNECTIONS;
  private StreamOptions options = StreamOptions.DEFAULT;
  private final CompletionExecutor completionExecutor;
  private volatile StreamComponent component;

  /**
   * Makes a connector with a random ID, unless {@link #setServiceName} or {@link #setServiceNumber}
   * says otherwise.
   *
   * <p>Buffers come from the server's pool if that is a {@link RipcByteBufferPool} of this context,
   * otherwise from one that the connector makes.
   *
   * @param factories of the protocols, the default one first; HTTP/1.1 if there are none
   */
  public RipcConnector(Server server, Ripc ripc, ConnectionFactory... factories) {
    this(server, null, null, null, ripc, factories);
  }

  /** Makes a connector whose service has a name. */
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
   * Makes a connector with threads, timers and buffers of its own.
   *
   * @param executor runs tasks; null: the server's
   * @param scheduler for time-outs; null: the server's
   * @param bufferPool preferably a {@link RipcByteBufferPool} of this context; null: chosen as in
   *     the other constructors
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

  // Adds one customizer to each configuration, which several connectors may share.
  private void tellPeers() {
    for (HttpConfiguration.ConnectionFactory factory :
        getBeans(HttpConfiguration.ConnectionFactory.class)) {
      HttpConfiguration configuration = factory.getHttpConfiguration();
      if (configuration.getCustomizer(PeerCustomizer.class) == null)
        configuration.addCustomizer(new PeerCustomizer());
    }
  }

  /** Sets the name of the service, from which its ID is made. */
  public void setServiceName(String name) {
    ServiceId.ofName(name);
    serviceName = name;
  }

  /** Sets the well-known number of the service. */
  public void setServiceNumber(long number) {
    serviceNumber = number;
  }

  /** Sets whether the ID is taken from a living holder, which is then fenced. */
  public void setTakeover(boolean on) {
    takeover = on;
  }

  /**
   * Sets which services may connect. The policy is called with the ID of each, in any thread. An ID
   * is a name and no proof: it sorts clients that the context admits, but keeps out no attacker.
   */
  public void setAccess(Predicate<ServiceId> policy) {
    access = Objects.requireNonNull(policy);
  }

  /**
   * Sets which peers may connect. The policy is called with the proven identity of each, in any
   * thread. {@link #setAccess} must admit them, too.
   */
  public void setPeerAccess(Predicate<Peer> policy) {
    peerAccess = Objects.requireNonNull(policy);
  }

  /** Sets whether only members of the trust file may connect. */
  public void setIdentityRequired(boolean on) {
    setPeerAccess(peer -> !on || !peer.identity().isEmpty());
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
    StreamService started = streams();
    return started == null ? 0 : started.streams().size();
  }

  /** How many clients wait for connections, because none are accepted now. */
  @ManagedAttribute("The clients that wait for connections, because none are accepted now")
  public int getWaitingClients() {
    StreamService started = streams();
    return started == null ? 0 : started.waitingClients();
  }

  /** Sets the most connections at once; further ones are refused. The default is 8192. */
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
    StreamService started = streams();
    return started == null ? null : started.service().id();
  }

  /**
   * How many bytes above {@code shortLimit} were copied to be sent, since the start. These are
   * answers on the heap, and those up to {@code copyLimit} ({@link StreamOptions}).
   */
  @ManagedAttribute("The bytes that were copied to be sent")
  public long getCopiedBytes() {
    StreamService started = streams();
    return started == null ? 0 : started.copiedBytes();
  }

  /**
   * The threads of the server; the thread that asks for a connection's next task may also run it.
   */
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

  /** Null while it is not started. */
  private StreamService streams() {
    StreamComponent started = component;
    return started == null ? null : started.streams();
  }

  @Override
  protected void doStart() throws Exception {
    ServiceBuilder builder = ripc.service();
    if (serviceName != null) builder.name(serviceName);
    if (serviceNumber != 0) builder.id(serviceNumber);
    if (takeover) builder.takeover();
    StreamServiceBuilder settings =
        StreamService.builder(builder)
            .options(options)
            .acceptor(this::opened)
            .access(access)
            .peerAccess(peerAccess)
            .maxStreams(maxConnections)
            .accepting(isAccepting());
    removeBean(component); // of a start that has failed
    component = new StreamComponent(settings, super.getExecutor(), getScheduler());
    addBean(component, true);
    tellPeers();
    super.doStart();
  }

  @Override
  protected void doStop() throws Exception {
    super.doStop(); // ends all connections
    removeBean(component);
    component = null;
  }

  /** While it is off, clients wait until it is on again, or their connect time-out expires. */
  @Override
  public void setAccepting(boolean accepting) {
    super.setAccepting(accepting);
    StreamService started = streams();
    if (started != null) started.setAccepting(accepting);
  }

  /** Refuses the clients that wait. */
  @Override
  public CompletableFuture<Void> shutdown() {
    CompletableFuture<Void> done = super.shutdown();
    StreamService started = streams();
    if (started != null) started.refuseAll();
    return done;
  }

  private void opened(ByteStream stream) {
    RipcEndPoint endPoint = new RipcEndPoint(getScheduler(), stream, false, this::onEndPointClosed);
    endPoint.setIdleTimeout(getIdleTimeout());
    Connection connection = getDefaultConnectionFactory().newConnection(this, endPoint);
    endPoint.setConnection(connection);
    endPoint.onOpen();
    onEndPointOpened(endPoint);
    stream.accept();
    connection.onOpen();
  }
}
