// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.eclipse.jetty.client.HttpClient;
import org.eclipse.jetty.client.Request;
import org.eclipse.jetty.client.transport.HttpClientTransportOverHTTP;
import org.eclipse.jetty.http2.client.HTTP2Client;
import org.eclipse.jetty.http2.client.transport.HttpClientTransportOverHTTP2;
import org.eclipse.jetty.http2.server.HTTP2CServerConnectionFactory;
import org.eclipse.jetty.io.ClientConnector;
import org.eclipse.jetty.io.EndPoint;
import org.eclipse.jetty.io.Transport;
import org.eclipse.jetty.server.AbstractConnector;
import org.eclipse.jetty.server.ConnectionFactory;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.Promise;
import org.eclipse.jetty.util.component.LifeCycle;
import org.eclipse.jetty.util.thread.QueuedThreadPool;
import org.eclipse.jetty.util.thread.Scheduler;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.Parameter;
import org.libripc.Ripc;
import org.libripc.RipcBuilder;
import org.libripc.stream.StreamOptions;

/**
 * A Jetty server and a Jetty client, the same over TCP and over libripc's transports: what holds
 * for one holds for all. Subclasses choose the transports.
 */
@Timeout(60)
abstract class HttpPairTest {
  /** The longest wait, in seconds. */
  static final long LIMIT = 20;

  static final String SERVICE = "jetty-test";

  @Parameter String over;
  @TempDir Path directory;

  Ripc serverContext;
  Ripc clientContext;
  Server server;
  AbstractConnector connector;
  HttpClient client;
  RipcClient ripcClient;
  private int port;

  /** How connections of the client use memory and time. */
  StreamOptions clientOptions() {
    return StreamOptions.DEFAULT;
  }

  boolean isTcp() {
    return over.equals("tcp");
  }

  QueuedThreadPool serverThreads() {
    return new QueuedThreadPool();
  }

  /** The server's scheduler for time-outs; null means one of Jetty's. */
  Scheduler serverScheduler() {
    return null;
  }

  /** The options of contexts. */
  RipcBuilder options() {
    return Ripc.builder();
  }

  Ripc context() {
    return options()
        .runtimeDirectory(directory.resolve("run"))
        .transports(over)
        .clusterKeyFile(key())
        .open();
  }

  /** The cluster key of both sides. */
  private synchronized Path key() {
    Path file = directory.resolve("cluster.key");
    if (Files.exists(file)) return file;
    byte[] key = new byte[32];
    new SecureRandom().nextBytes(key);
    try {
      Files.createFile(
          file, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
      return Files.writeString(file, HexFormat.of().formatHex(key));
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
  }

  void start(Handler handler) throws Exception {
    start(handler, ignored -> {});
  }

  /** Starts both sides for HTTP/1.1, and for HTTP/2 without TLS at the server. */
  void start(Handler handler, Consumer<AbstractConnector> change) throws Exception {
    startServer(handler, change);
    client = new HttpClient(new HttpClientTransportOverHTTP(clientConnector()));
    startClient();
  }

  void startServer(Handler handler, Consumer<AbstractConnector> change) throws Exception {
    HttpConfiguration configuration = new HttpConfiguration();
    ConnectionFactory[] factories = {
      new HttpConnectionFactory(configuration), new HTTP2CServerConnectionFactory(configuration)
    };
    QueuedThreadPool threads = serverThreads();
    threads.setName("server");
    if (isTcp()) {
      server = new Server(threads);
      ServerConnector tcp = new ServerConnector(server, factories);
      tcp.setHost("127.0.0.1");
      connector = tcp;
    } else {
      serverContext = context();
      server = new Server(threads, serverScheduler(), new RipcByteBufferPool(serverContext));
      connector = new RipcConnector(server, serverContext, SERVICE, factories);
    }
    connector.setIdleTimeout(LIMIT * 1000);
    change.accept(connector);
    server.addConnector(connector);
    server.setHandler(handler);
    server.start();
    port = isTcp() ? ((ServerConnector) connector).getLocalPort() : 0;
  }

  ClientConnector clientConnector() {
    ClientConnector clientConnector = new ClientConnector();
    clientConnector.setSelectors(1);
    return clientConnector;
  }

  void startHttp2Client() throws Exception {
    client = new HttpClient(new HttpClientTransportOverHTTP2(new HTTP2Client(clientConnector())));
    startClient();
  }

  private void startClient() throws Exception {
    QueuedThreadPool threads = new QueuedThreadPool();
    threads.setName("client");
    client.setExecutor(threads);
    client.setMaxRequestsQueuedPerDestination(100_000);
    if (!isTcp()) {
      clientContext = context();
      ripcClient = new RipcClient(clientContext);
      ripcClient.setOptions(clientOptions());
      ripcClient.setExecutor(threads);
      client.addBean(ripcClient);
    }
    client.start();
  }

  Request request(String path) {
    Request request = client.newRequest(url(path)).timeout(LIMIT, TimeUnit.SECONDS);
    return isTcp() ? request : request.transport(transport());
  }

  String url(String path) {
    return "http://127.0.0.1:" + (isTcp() ? port : 80) + path;
  }

  Transport transport() {
    return isTcp() ? Transport.TCP_IP : ripcClient.transport(SERVICE);
  }

  /** A process of {@link FetchMain} that is told a line. */
  Process fetcher(String line) throws Exception {
    ProcessBuilder builder =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-cp",
                System.getProperty(
                    "surefire.test.class.path", System.getProperty("java.class.path")),
                FetchMain.class.getName(),
                isTcp() ? "tcp:" + port : "ripc:" + SERVICE)
            .redirectError(ProcessBuilder.Redirect.DISCARD);
    builder.environment().put("RIPC_RUNTIME_DIR", directory.resolve("run").toString());
    builder.environment().put("RIPC_TRANSPORTS", isTcp() ? "shm" : over);
    builder.environment().put("RIPC_CLUSTER_KEY_FILE", key().toString());
    Process process = builder.start();
    process.outputWriter().append(line).flush();
    return process;
  }

  /** A connection of plain bytes, without HTTP on this side. */
  RawConnection raw() throws Exception {
    if (isTcp()) return new RawConnection.Tcp(port);
    if (ripcClient == null) {
      clientContext = context();
      ripcClient = new RipcClient(clientContext);
      ripcClient.start();
    }
    Promise.Completable<RipcEndPoint> connected = new Promise.Completable<>();
    ripcClient.connect(ripcClient.transport(SERVICE).server(), LIMIT * 1000, connected);
    return new RawConnection.Stream(connected.get(LIMIT, TimeUnit.SECONDS));
  }

  EndPoint serverEndPoint() throws InterruptedException {
    assertTrue(eventually(() -> connector.getConnectedEndPoints().size() == 1), "connected");
    return connector.getConnectedEndPoints().iterator().next();
  }

  @AfterEach
  void stop() {
    LifeCycle.stop(client);
    LifeCycle.stop(ripcClient);
    LifeCycle.stop(server);
    if (clientContext != null) clientContext.close();
    if (serverContext != null) serverContext.close();
  }

  /** What the server leases. Without kept buffers, a lease ends when no one can reach it. */
  long leasedAfterCollection() {
    System.gc();
    return serverContext.poolStatistics().leased();
  }

  /**
   * Checks that nobody is connected, no more is leased than before, and no further leak was
   * reported.
   */
  void assertMemoryIsBack(long leased, long leaks) throws InterruptedException {
    assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
    assertTrue(
        eventually(() -> leasedAfterCollection() <= leased),
        () -> leased + " bytes before, then " + serverContext.poolStatistics());
    assertEquals(leaks, Ripc.leaksReported());
  }

  static byte[] pattern(int size, long seed) {
    byte[] bytes = new byte[size];
    new Random(seed).nextBytes(bytes);
    return bytes;
  }

  /** Asks until the condition holds, or the time is over. */
  static boolean eventually(BooleanSupplier condition) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT);
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > end) return false;
      Thread.sleep(1);
    }
    return true;
  }
}
