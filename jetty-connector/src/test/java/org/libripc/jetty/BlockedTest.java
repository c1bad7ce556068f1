// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.eclipse.jetty.client.CompletableResponseListener;
import org.eclipse.jetty.client.ContentResponse;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.io.RetainableByteBuffer;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.Callback;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.stream.StreamOptions;

/** A task that says that it does not block, but does, holds up nobody else. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class BlockedTest extends HttpPairTest {
  private final CountDownLatch released = new CountDownLatch(1);

  private void awaitRelease() {
    try {
      assertTrue(released.await(LIMIT, TimeUnit.SECONDS), "somebody else goes on");
    } catch (InterruptedException stopped) {
      throw new AssertionError(stopped);
    }
  }

  private final class Waiting extends Handler.Abstract.NonBlocking {
    @Override
    public boolean handle(Request request, Response response, Callback callback) throws Exception {
      String path = request.getHttpURI().getPath();
      if (path.equals("/wait")) awaitRelease();
      if (path.equals("/release")) released.countDown();
      if (path.equals("/large")) {
        writeLarge(response, callback);
      } else {
        Content.Sink.write(response, true, path, callback);
      }
      return true;
    }

    // Answers in one write, which is complete when the client has it, and whose callback waits.
    private void writeLarge(Response response, Callback callback) {
      int size = 2 * StreamOptions.DEFAULT.copyLimit();
      RetainableByteBuffer.Mutable buffer = server.getByteBufferPool().acquire(size, true);
      buffer.append(ByteBuffer.wrap(pattern(size, 1)));
      response.getHeaders().put(HttpHeader.CONTENT_LENGTH, size);
      Runnable written =
          () -> {
            buffer.release();
            awaitRelease();
            callback.succeeded();
          };
      response.write(
          true,
          buffer.getByteBuffer(),
          Callback.from(InvocationType.NON_BLOCKING, written, callback::failed));
    }
  }

  @Test
  void aHandlerThatBlocksHoldsUpNobodyElse() throws Exception {
    start(new Waiting());
    CompletableFuture<ContentResponse> waiting =
        new CompletableResponseListener(request("/wait")).send();
    assertEquals(200, request("/release").send().getStatus());
    assertEquals(200, waiting.get(LIMIT, TimeUnit.SECONDS).getStatus());
  }

  @Test
  void theCallbackOfAWriteThatBlocksHoldsUpNobodyElse() throws Exception {
    startServer(new Waiting(), ignored -> {});
    try (RawConnection first = raw();
        RawConnection second = raw()) {
      first.write("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
      first.readBody(2 * StreamOptions.DEFAULT.copyLimit());
      first.write("GET /next HTTP/1.1\r\nHost: x\r\n\r\n"); // tells that the body was read
      second.write("GET /release HTTP/1.1\r\nHost: x\r\n\r\n");
      assertTrue(second.readUntil("/release").startsWith("HTTP/1.1 200"));
      assertTrue(first.readUntil("/next").startsWith("HTTP/1.1 200"));
    }
  }
}
