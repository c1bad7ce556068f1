// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.libripc.jetty.Handlers.handler;
import static org.libripc.jetty.Handlers.path;

import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Exchanger;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.eclipse.jetty.client.CompletableResponseListener;
import org.eclipse.jetty.client.ContentResponse;
import org.eclipse.jetty.client.Result;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.io.EndPoint;
import org.eclipse.jetty.io.RetainableByteBuffer;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.handler.GracefulHandler;
import org.eclipse.jetty.util.Callback;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

/** When connections end, and when they do not. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"tcp", "shm", "socket"})
class EndingTest extends HttpPairTest {
  // Answers with one buffer of the pool, as the cache of static content does.
  private Handler whole(byte[] body, Callback.Completable written) {
    return handler(
        (request, response, callback) -> {
          RetainableByteBuffer.Mutable buffer =
              server.getByteBufferPool().acquire(body.length, true);
          buffer.append(ByteBuffer.wrap(body));
          response.getHeaders().put(HttpHeader.CONTENT_LENGTH, body.length);
          written.whenComplete((nothing, problem) -> buffer.release());
          callback.completeWith(written);
          response.write(true, buffer.getByteBuffer(), written);
        });
  }

  // Takes about 2 seconds, twice what a connection may be idle. What it reads between two pauses is
  // small compared with what one write may be.
  private void readSlowly(RawConnection connection, int size, String begun) throws Exception {
    byte[] some = new byte[100_000];
    int total = begun.length() - begun.indexOf("\r\n\r\n") - 4;
    while (total < size) {
      int count = connection.read(some);
      assertTrue(count > 0, total + " bytes of " + size + ", then " + count);
      total += count;
      TimeUnit.MILLISECONDS.sleep(count / 6_000);
    }
  }

  @Test
  void aClientThatHasSentEverythingStillGetsItsAnswer() throws Exception {
    startServer(new HttpTest.Echo(), ignored -> {});
    try (RawConnection connection = raw()) {
      connection.write("POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\nhalf");
      connection.shutdownOutput();
      assertTrue(connection.readAll().endsWith("half"));
    }
    assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
  }

  @Test
  void aClientThatGoesAwayIsForgotten() throws Exception {
    startServer(path(), ignored -> {});
    RawConnection connection = raw();
    connection.write("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    assertTrue(connection.readUntil("/a").startsWith("HTTP/1.1 200"));
    EndPoint endPoint = serverEndPoint();
    connection.close();
    assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
    assertFalse(endPoint.isOpen());
  }

  @Test
  void anIdleConnectionIsClosed() throws Exception {
    startServer(path(), changed -> changed.setIdleTimeout(300));
    try (RawConnection connection = raw()) {
      connection.write("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
      String answer = connection.readAll(); // ends because the server closes
      assertTrue(answer.endsWith("/a"), answer);
    }
    assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
  }

  @Test
  void aBusyConnectionIsNotIdle() throws Exception {
    start(path(), changed -> changed.setIdleTimeout(400));
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(1500);
    assertEquals(200, request("/").send().getStatus());
    EndPoint endPoint = serverEndPoint();
    while (System.nanoTime() < end) {
      assertEquals(200, request("/").send().getStatus());
      Thread.sleep(20);
    }
    assertTrue(endPoint.isOpen());
  }

  @Test
  void aConnectionWhoseClientReadsSlowlyIsNotIdle() throws Exception {
    byte[] body = pattern(12_000_000, 1);
    Callback.Completable written = new Callback.Completable();
    startServer(whole(body, written), changed -> changed.setIdleTimeout(1000));
    try (RawConnection connection = raw()) {
      connection.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      readSlowly(connection, body.length, connection.readUntil("\r\n\r\n"));
      written.get(LIMIT, TimeUnit.SECONDS);
    }
  }

  @Test
  void aClientThatGivesUpFreesTheHandler() throws Exception {
    Exchanger<Throwable> failure = new Exchanger<>();
    start(
        handler(
            (request, response, callback) -> {
              try {
                for (; ; ) {
                  Content.Sink.write(response, false, ByteBuffer.wrap(pattern(500_000, 1)));
                }
              } catch (Exception broken) {
                failure.exchange(broken, LIMIT, TimeUnit.SECONDS);
                callback.failed(broken);
              }
            }));
    CompletableFuture<Result> done = new CompletableFuture<>();
    request("/")
        .onResponseContent((response, chunk) -> response.abort(new Exception("enough")))
        .send(done::complete);
    assertTrue(done.get(LIMIT, TimeUnit.SECONDS).isFailed());
    assertTrue(failure.exchange(null, LIMIT, TimeUnit.SECONDS) != null);
    assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
  }

  @Test
  void aGracefulStopLetsAClientReadSlowly() throws Exception {
    byte[] body = pattern(12_000_000, 1);
    Callback.Completable written = new Callback.Completable();
    startServer(whole(body, written), ignored -> {});
    try (RawConnection connection = raw()) {
      connection.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      String begun = connection.readUntil("\r\n\r\n");
      connector.shutdown(); // gives connections a second
      readSlowly(connection, body.length, begun);
      written.get(LIMIT, TimeUnit.SECONDS);
    }
  }

  @Test
  void aGracefulStopLetsARequestEnd() throws Exception {
    CountDownLatch inside = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    GracefulHandler graceful = new GracefulHandler();
    graceful.setHandler(
        handler(
            (request, response, callback) -> {
              inside.countDown();
              go.await();
              Content.Sink.write(response, true, "done".repeat(100_000), callback);
            }));
    start(graceful);
    server.setStopTimeout(LIMIT * 1000);
    CompletableFuture<ContentResponse> answer =
        new CompletableResponseListener(request("/")).send();
    assertTrue(inside.await(LIMIT, TimeUnit.SECONDS));
    CompletableFuture<Void> stopped =
        CompletableFuture.runAsync(
            () -> {
              try {
                server.stop();
              } catch (Exception problem) {
                throw new IllegalStateException(problem);
              }
            });
    assertTrue(eventually(() -> connector.isShutdown() || !connector.isRunning()));
    go.countDown();
    assertEquals("done".repeat(100_000), answer.get(LIMIT, TimeUnit.SECONDS).getContentAsString());
    stopped.get(LIMIT, TimeUnit.SECONDS);
  }

  @Test
  void nobodyConnectsToAServerThatHasStopped() throws Exception {
    start(path());
    assertEquals(200, request("/").send().getStatus());
    server.stop();
    assertThrows(ExecutionException.class, () -> request("/").send());
  }
}
