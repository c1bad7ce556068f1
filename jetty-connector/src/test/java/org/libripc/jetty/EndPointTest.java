// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.util.BufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
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

  // The body is large enough that a write with a callback would send it from where it lies.
  @Test
  void whatFlushHasTakenIsTheCallersAgain() throws Exception {
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
}
