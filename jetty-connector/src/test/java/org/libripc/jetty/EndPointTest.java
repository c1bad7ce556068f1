// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.eclipse.jetty.io.AbstractConnection;
import org.eclipse.jetty.io.Connection;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.io.EndPoint;
import org.eclipse.jetty.server.AbstractConnectionFactory;
import org.eclipse.jetty.server.ConnectionFactory;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.util.BufferUtil;
import org.eclipse.jetty.util.Callback;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.ItemKind;
import org.libripc.Outgoing;
import org.libripc.stream.StreamOptions;

/** What Jetty's EndPoint promises. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class EndPointTest extends HttpPairTest {
  @Test
  void fillAfterTheEndReturnsMinusOneAgain() throws Exception {
    startServer(Handlers.path(), ignored -> {});
    try (RawConnection connection = raw()) {
      connection.write("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      assertTrue(connection.readAll().endsWith("/a"));
      RipcEndPoint endPoint = ((RawConnection.Stream) connection).endPoint;
      ByteBuffer buffer = BufferUtil.allocateDirect(100);
      assertEquals(-1, endPoint.fill(buffer));
      endPoint.shutdownOutput(); // both directions have ended: it is closed
      assertFalse(endPoint.isOpen());
      assertEquals(-1, endPoint.fill(buffer));
      assertEquals(-1, endPoint.fill(buffer));
    }
  }

  /** Jetty itself closes no connection that fails while no response is expected. */
  @Test
  void anIdleConnectionThatBreaksIsForgotten() throws Exception {
    start(Handlers.ok());
    assertEquals(200, request("/").send().getStatus());
    assertEquals(1, ripcClient.getConnections());
    RipcEndPoint there = (RipcEndPoint) serverEndPoint();
    RawFrame reset =
        new RawFrame(RawFrame.Type.RESET, RawFrame.FILLER, RawFrame.Reason.ABORTED, 0, 0, 0);
    Outgoing message = new Outgoing().tag(there.stream().number());
    there.getTransport().send(there.peer(), message.add(reset.encode(), ItemKind.SHORT));
    assertTrue(eventually(() -> ripcClient.getConnections() == 0));
    assertEquals(200, request("/").send().getStatus());
  }

  // The body is large enough that a write with a callback would send it from where it lies.
  @Test
  void bytesTakenByFlushAreTheCallersAgain() throws Exception {
    startServer(
        Handlers.handler(
            (request, response, callback) -> {
              byte[] body = new byte[(int) request.getLength()];
              Content.Source.asByteBuffer(request).get(body);
              assertArrayEquals(pattern(body.length, 1), body);
              Content.Sink.write(response, true, "whole", callback);
            }),
        ignored -> {});
    int size = 2 * StreamOptions.DEFAULT.copyLimit();
    ByteBuffer body = ByteBuffer.allocateDirect(size).put(pattern(size, 1)).flip();
    try (RawConnection connection = raw()) {
      RipcEndPoint endPoint = ((RawConnection.Stream) connection).endPoint;
      connection.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + size + "\r\n\r\n");
      while (body.hasRemaining()) {
        int before = body.position();
        endPoint.flush(body);
        assertTrue(body.position() > 0, "what was sent is taken");
        for (int at = before; at < body.position(); ++at) body.put(at, (byte) 0);
        if (body.position() == before) Thread.onSpinWait();
      }
      assertTrue(connection.readUntil("whole").startsWith("HTTP/1.1 200"));
    }
  }

  @Test
  void flushInACallbackTakesBytes() throws Exception {
    startServer(Handlers.path(), ignored -> {});
    int size = 2 * StreamOptions.DEFAULT.copyLimit();
    try (RawConnection connection = raw()) {
      RipcEndPoint endPoint = ((RawConnection.Stream) connection).endPoint;
      ByteBuffer body = ByteBuffer.allocateDirect(size);
      CompletableFuture<Integer> taken = new CompletableFuture<>();
      endPoint.write(
          Callback.from(
              () -> {
                try {
                  endPoint.flush(body);
                  taken.complete(body.position());
                } catch (IOException problem) {
                  taken.completeExceptionally(problem);
                }
              },
              taken::completeExceptionally),
          BufferUtil.toBuffer("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"));
      assertTrue(taken.get(LIMIT, TimeUnit.SECONDS) > 0, "what was sent is taken");
    }
  }

  @Test
  void aConnectionThatCannotBeOpenedIsForgotten() throws Exception {
    ConnectionFactory failing =
        new AbstractConnectionFactory("failing") {
          @Override
          public Connection newConnection(Connector by, EndPoint endPoint) {
            return new AbstractConnection(endPoint, by.getExecutor()) {
              @Override
              public void onOpen() {
                super.onOpen();
                throw new IllegalStateException("as a test wants it");
              }

              @Override
              public void onFillable() {}
            };
          }
        };
    startServer(
        Handlers.path(),
        changed -> {
          changed.addConnectionFactory(failing);
          changed.setDefaultProtocol("failing");
          changed.setIdleTimeout(0);
        });
    try (RawConnection connection = raw()) {
      connection.readAll();
    } catch (Exception broken) {
      // it may be refused, or end
    }
    assertTrue(eventually(() -> ((RipcConnector) connector).getConnections() == 0));
    assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()), "it is forgotten");
  }
}
