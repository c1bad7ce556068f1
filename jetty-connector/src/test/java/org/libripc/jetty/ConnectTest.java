// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketTimeoutException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.eclipse.jetty.util.Promise;
import org.eclipse.jetty.util.component.LifeCycle;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.Service;

/** How a connection comes about, or does not. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"tcp", "shm", "socket"})
class ConnectTest extends HttpPairTest {
  // Connects to a service that receives nothing, and returns the failure.
  private Throwable connectInVain(long timeoutMillis, boolean stop) throws Exception {
    serverContext = context();
    clientContext = context();
    ripcClient = new RipcClient(clientContext);
    ripcClient.start();
    Promise.Completable<RipcEndPoint> promise = new Promise.Completable<>();
    try (Service deaf = serverContext.register()) {
      ripcClient.connect(deaf.id(), timeoutMillis, promise);
      if (stop) LifeCycle.stop(ripcClient);
      ExecutionException failed =
          assertThrows(ExecutionException.class, () -> promise.get(LIMIT, TimeUnit.SECONDS));
      return failed.getCause();
    }
  }

  @Test
  void aConnectTimeOutIsJettysException() throws Exception {
    if (isTcp()) return;
    assertInstanceOf(SocketTimeoutException.class, connectInVain(50, false));
  }

  @Test
  void aStopOfTheClientEndsItsConnects() throws Exception {
    if (isTcp()) return;
    assertInstanceOf(ConnectException.class, connectInVain(0, true));
  }

  @Test
  void clientsWaitUntilConnectionsAreAcceptedAgain() throws Exception {
    startServer(Handlers.path(), ignored -> {});
    try (RawConnection before = raw()) {
      before.write("GET /before HTTP/1.1\r\nHost: x\r\n\r\n");
      assertTrue(before.readUntil("/before").startsWith("HTTP/1.1 200"));
      connector.setAccepting(false);
      CompletableFuture<RawConnection> waiting =
          CompletableFuture.supplyAsync(
              () -> {
                try {
                  RawConnection connection = raw();
                  connection.write("GET /after HTTP/1.1\r\nHost: x\r\n\r\n");
                  return connection;
                } catch (Exception problem) {
                  throw new IllegalStateException(problem);
                }
              });
      before.write("GET /still HTTP/1.1\r\nHost: x\r\n\r\n");
      assertTrue(before.readUntil("/still").startsWith("HTTP/1.1 200"));
      if (!isTcp()) {
        RipcConnector ripc = (RipcConnector) connector;
        assertTrue(eventually(() -> ripc.getWaitingClients() == 1), "it waits");
        assertEquals(1, connector.getConnectedEndPoints().size());
      }
      connector.setAccepting(true);
      try (RawConnection connection = waiting.get(LIMIT, TimeUnit.SECONDS)) {
        assertTrue(connection.readUntil("/after").startsWith("HTTP/1.1 200"));
      }
    }
  }

  @Test
  void aStopRefusesWaitingClients() throws Exception {
    if (isTcp()) return;
    startServer(Handlers.path(), ignored -> {});
    connector.setAccepting(false);
    CompletableFuture<Throwable> refused =
        CompletableFuture.supplyAsync(() -> assertThrows(ExecutionException.class, this::raw));
    assertTrue(eventually(() -> ((RipcConnector) connector).getWaitingClients() == 1), "it waits");
    LifeCycle.stop(server);
    Throwable cause = refused.get(LIMIT, TimeUnit.SECONDS).getCause();
    assertInstanceOf(IOException.class, cause);
  }
}
