// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.net.SocketAddress;
import java.util.Map;
import java.util.Objects;
import org.eclipse.jetty.io.ClientConnector;
import org.eclipse.jetty.io.Connection;
import org.eclipse.jetty.io.Transport;
import org.eclipse.jetty.util.Promise;
import org.libripc.ServiceId;

/**
 * The transport from a Jetty client to a server that is a libripc service: {@code
 * httpClient.newRequest("http://any.name/").transport(ripcClient.transport("server"))}. Works with
 * HTTP/1.1 and HTTP/2. Immutable; equal transports share connections.
 */
public final class RipcTransport implements Transport {
  private final RipcClient client;
  private final ServiceId server;

  RipcTransport(RipcClient client, ServiceId server) {
    this.client = client;
    this.server = Objects.requireNonNull(server);
  }

  /** The server. */
  public ServiceId server() {
    return server;
  }

  @Override
  public SocketAddress getSocketAddress() {
    return new RipcAddress(server, 0);
  }

  @Override
  public void connect(SocketAddress address, Map<String, Object> context) {
    @SuppressWarnings("unchecked")
    Promise<Connection> promise =
        (Promise<Connection>) context.get(ClientConnector.CONNECTION_PROMISE_CONTEXT_KEY);
    ClientConnector connector = (ClientConnector) context.get(ClientConnector.CONTEXT_KEY);
    long timeout = connector == null ? 0 : connector.getConnectTimeout().toMillis();
    client.connect(
        server,
        timeout,
        new Promise<>() {
          @Override
          public void succeeded(RipcEndPoint endPoint) {
            open(endPoint, connector, context, promise);
          }

          @Override
          public void failed(Throwable problem) {
            promise.failed(problem);
          }
        });
  }

  private static void open(
      RipcEndPoint endPoint,
      ClientConnector connector,
      Map<String, Object> context,
      Promise<Connection> promise) {
    try {
      if (connector != null) endPoint.setIdleTimeout(connector.getIdleTimeout().toMillis());
      // Transports may be nested: the outermost one makes the connection.
      Transport outermost = (Transport) context.get(Transport.CONTEXT_KEY);
      Connection connection = outermost.newConnection(endPoint, context);
      endPoint.setConnection(connection);
      endPoint.onOpen();
      connection.onOpen();
      promise.succeeded(connection);
    } catch (Throwable problem) {
      endPoint.close(problem);
      promise.failed(problem);
    }
  }

  @Override
  public int hashCode() {
    return Objects.hash(System.identityHashCode(client), server);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RipcTransport
        && ((RipcTransport) other).client == client
        && ((RipcTransport) other).server.equals(server);
  }

  @Override
  public String toString() {
    return "RipcTransport[" + server + "]";
  }
}
