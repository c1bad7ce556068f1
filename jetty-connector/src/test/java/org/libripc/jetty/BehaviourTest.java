// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.libripc.jetty.Handlers.handler;
import static org.libripc.jetty.Handlers.path;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.eclipse.jetty.client.AsyncRequestContent;
import org.eclipse.jetty.client.BytesRequestContent;
import org.eclipse.jetty.client.CompletableResponseListener;
import org.eclipse.jetty.client.ContentResponse;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.http.HttpMethod;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.io.EndPoint;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.thread.QueuedThreadPool;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.stream.StreamOptions;

/** How connections behave: order, waiting, many at once. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"tcp", "shm", "socket"})
class BehaviourTest extends HttpPairTest {
  @Test
  void pipelinedRequestsAreAnsweredInOrder() throws Exception {
    startServer(path(), ignored -> {});
    try (RawConnection connection = raw()) {
      StringBuilder requests = new StringBuilder();
      for (int number = 0; number < 50; ++number) {
        requests.append("GET /").append(number).append(" HTTP/1.1\r\nHost: x\r\n\r\n");
      }
      requests.append("GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      connection.write(requests.toString());
      String answers = connection.readAll();
      int at = 0;
      for (int number = 0; number < 50; ++number) {
        at = answers.indexOf("\r\n\r\n/" + number, at + 1);
        assertTrue(at >= 0, "answer " + number);
      }
      assertTrue(answers.endsWith("/last"));
    }
  }

  @Test
  void aRequestInManyPiecesIsOneRequest() throws Exception {
    startServer(path(), ignored -> {});
    try (RawConnection connection = raw()) {
      for (char each : "GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".toCharArray()) {
        connection.write(String.valueOf(each));
      }
      assertTrue(connection.readAll().endsWith("/slow"));
    }
  }

  @Test
  void aWriteOfManyBuffersIsOneStream() throws Exception {
    startServer(
        handler(
            (request, response, callback) -> {
              ByteBuffer all = Content.Source.asByteBuffer(request);
              int size = Integer.parseInt(request.getHttpURI().getPath().substring(1));
              boolean same = all.equals(ByteBuffer.wrap(pattern(size, 1)));
              Content.Sink.write(response, true, same ? "same" : "other", callback);
            }),
        ignored -> {});
    try (RawConnection connection = raw()) {
      for (int size : new int[] {1, 7, 120, 1000, 3000}) {
        for (int count : new int[] {59, 60, 61, 64, 300}) {
          byte[] body = pattern(size * count, 1);
          ByteBuffer[] buffers = new ByteBuffer[count + 1];
          buffers[0] =
              US_ASCII.encode(
                  String.format(
                      "POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: %1$d\r\n\r\n", body.length));
          for (int index = 0; index < count; ++index) {
            buffers[index + 1] = ByteBuffer.wrap(body, index * size, size);
          }
          connection.write(buffers);
          String answer = connection.readUntil("same");
          assertTrue(answer.endsWith("same"), answer);
        }
      }
    }
  }

  @Test
  void parallelRequestsUseConnectionsOfTheirOwn() throws Exception {
    CountDownLatch together = new CountDownLatch(8);
    start(
        handler(
            (request, response, callback) -> {
              together.countDown();
              assertTrue(together.await(LIMIT, TimeUnit.SECONDS));
              callback.succeeded();
            }));
    List<CompletableFuture<ContentResponse>> all = new ArrayList<>();
    for (int number = 0; number < 8; ++number) {
      all.add(new CompletableResponseListener(request("/" + number)).send());
    }
    for (CompletableFuture<ContentResponse> each : all) {
      assertEquals(200, each.get(LIMIT, TimeUnit.SECONDS).getStatus());
    }
  }

  @Test
  void theServerContinuesWhatTheClientAsksItTo() throws Exception {
    start(new HttpTest.Echo());
    byte[] body = pattern(200_000, 1);
    ContentResponse response =
        request("/")
            .method(HttpMethod.POST)
            .headers(headers -> headers.put(HttpHeader.EXPECT, "100-continue"))
            .body(new BytesRequestContent(body))
            .send();
    assertArrayEquals(body, response.getContent());
    try (RawConnection connection = raw()) {
      connection.write(
          "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
      assertTrue(connection.readUntil("\r\n\r\n").startsWith("HTTP/1.1 100"));
      connection.write("later");
      assertTrue(connection.readUntil("later").contains("HTTP/1.1 200"));
    }
  }

  @Test
  void chunkedBodiesTravelBothWays() throws Exception {
    start(new HttpTest.Echo());
    AsyncRequestContent content = new AsyncRequestContent();
    CompletableFuture<ContentResponse> answer =
        new CompletableResponseListener(
                request("/").method(HttpMethod.POST).body(content), 10 << 20)
            .send();
    byte[] body = pattern(100 * 30_000, 2);
    for (int at = 0; at < body.length; at += 30_000) {
      content.write(ByteBuffer.wrap(body, at, 30_000), Callback.NOOP);
    }
    content.close();
    ContentResponse response = answer.get(LIMIT, TimeUnit.SECONDS);
    assertEquals("chunked", response.getHeaders().get(HttpHeader.TRANSFER_ENCODING));
    assertArrayEquals(body, response.getContent());
  }

  @Test
  void aLargeUploadArrives() throws Exception {
    AtomicLong bytes = new AtomicLong();
    int size = 40_000_000;
    start(
        handler(
            (request, response, callback) -> {
              ByteBuffer all = Content.Source.asByteBuffer(request);
              assertEquals(ByteBuffer.wrap(pattern(size, 3)), all);
              bytes.set(all.remaining());
              callback.succeeded();
            }));
    ContentResponse response =
        request("/").method(HttpMethod.PUT).body(new BytesRequestContent(pattern(size, 3))).send();
    assertEquals(200, response.getStatus());
    assertEquals(size, bytes.get());
  }

  @Test
  void theHandlerWaitsForAClientThatDoesNotRead() throws Exception {
    AtomicLong written = new AtomicLong();
    CompletableFuture<Void> complete = new CompletableFuture<>();
    int piece = 300_000;
    int pieces = 100;
    startServer(
        handler(
            (request, response, callback) -> {
              response.getHeaders().put(HttpHeader.CONTENT_LENGTH, (long) piece * pieces);
              for (int count = 0; count < pieces; ++count) {
                Content.Sink.write(
                    response, count == pieces - 1, ByteBuffer.wrap(pattern(piece, count)));
                written.addAndGet(piece);
              }
              complete.complete(null);
              callback.succeeded();
            }),
        ignored -> {});
    try (RawConnection connection = raw()) {
      connection.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      String head = connection.readUntil("\r\n\r\n");
      long before = -1;
      while (before != written.get()) {
        before = written.get();
        Thread.sleep(200);
      }
      assertFalse(complete.isDone());
      assertTrue(before <= 15_000_000, before + " bytes were written ahead");
      int total = head.length() - head.indexOf("\r\n\r\n") - 4;
      byte[] some = new byte[100_000];
      for (int count = connection.read(some); count >= 0; count = connection.read(some)) {
        total += count;
      }
      assertEquals(piece * pieces, total);
    }
    complete.get(LIMIT, TimeUnit.SECONDS);
  }

  @Test
  void receivedButUnreadBytesHoldUpTheWriter() throws Exception {
    int size = 2 * StreamOptions.DEFAULT.window();
    startServer(
        handler(
            (request, response, callback) -> {
              response.getHeaders().put(HttpHeader.CONTENT_LENGTH, 2L * size);
              // Over shared memory the client has a copy before it has read the first byte.
              Content.Sink.write(response, false, notOfThePool(size, 1));
              Content.Sink.write(response, true, notOfThePool(size, 2));
              callback.succeeded();
            }),
        ignored -> {});
    try (RawConnection connection = raw()) {
      connection.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      String begun = connection.readUntil(RawConnection.HEAD_END);
      if (!isTcp()) {
        EndPoint writer = serverEndPoint();
        assertTrue(eventually(() -> writer.toString().contains("wait=CREDIT")), writer::toString);
      }
      byte[] body = connection.readBody(begun, 2 * size);
      assertArrayEquals(pattern(size, 1), Arrays.copyOf(body, size));
      assertArrayEquals(pattern(size, 2), Arrays.copyOfRange(body, size, body.length));
    }
  }

  private static ByteBuffer notOfThePool(int size, long seed) {
    return ByteBuffer.allocateDirect(size).put(pattern(size, seed)).flip();
  }

  @Test
  void anEndMayComeWhenTheWindowIsFull() throws Exception {
    int first = 1_000_000;
    int second = 300_000;
    startServer(
        handler(
            (request, response, callback) -> {
              response.getHeaders().put(HttpHeader.CONTENT_LENGTH, (long) first + second);
              Content.Sink.write(response, false, ByteBuffer.wrap(pattern(first, 1)));
              Content.Sink.write(response, true, ByteBuffer.wrap(pattern(second, 2)));
              callback.succeeded();
            }),
        ignored -> {});
    try (RawConnection connection = raw()) {
      connection.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      if (connection instanceof RawConnection.Stream stream) {
        assertTrue(eventually(() -> stream.endPoint.toString().contains(",ended")), "the end");
      }
      String answer = connection.readAll();
      assertEquals(first + second, answer.length() - answer.indexOf("\r\n\r\n") - 4);
    }
  }

  @Test
  void manySmallWritesArriveInOrder() throws Exception {
    int count = 3_000;
    startServer(
        handler(
            (request, response, callback) -> {
              for (int number = 0; number < count; ++number) {
                byte[] line = String.format("%07d\n", number).getBytes();
                Content.Sink.write(response, number == count - 1, ByteBuffer.wrap(line));
              }
              callback.succeeded();
            }),
        ignored -> {});
    try (RawConnection connection = raw()) {
      connection.write("GET / HTTP/1.0\r\n\r\n");
      String answer = connection.readAll();
      String[] lines = answer.substring(answer.indexOf("\r\n\r\n") + 4).split("\n");
      assertEquals(count, lines.length);
      for (int number = 0; number < count; ++number) {
        assertEquals(number, Integer.parseInt(lines[number]));
      }
    }
  }

  @Test
  void http2Works() throws Exception {
    startServer(new HttpTest.Echo(), ignored -> {});
    startHttp2Client();
    client.setMaxConnectionsPerDestination(1);
    List<CompletableFuture<ContentResponse>> all = new ArrayList<>();
    for (int size : HttpTest.SIZES) {
      all.add(
          new CompletableResponseListener(
                  request("/")
                      .method(HttpMethod.POST)
                      .body(new BytesRequestContent(pattern(size, size))),
                  10 << 20)
              .send());
    }
    for (int index = 0; index < all.size(); ++index) {
      int size = HttpTest.SIZES[index];
      ContentResponse response = all.get(index).get(LIMIT, TimeUnit.SECONDS);
      assertEquals("HTTP/2.0", response.getVersion().asString());
      assertArrayEquals(pattern(size, size), response.getContent(), () -> size + " bytes");
    }
    assertEquals(1, connector.getConnectedEndPoints().size());
  }

  @Test
  void http2AnswersManyStreamsOfOneConnectionTogether() throws Exception {
    int streams = 100;
    CountDownLatch together = new CountDownLatch(streams);
    startServer(
        handler(
            (request, response, callback) -> {
              together.countDown();
              assertTrue(together.await(LIMIT, TimeUnit.SECONDS));
              Content.Sink.write(response, true, "x".repeat(200), callback);
            }),
        ignored -> {});
    ((QueuedThreadPool) server.getThreadPool()).setMaxThreads(2 * streams);
    startHttp2Client();
    client.setMaxConnectionsPerDestination(1);
    List<CompletableFuture<ContentResponse>> all = new ArrayList<>();
    for (int number = 0; number < streams; ++number) {
      all.add(new CompletableResponseListener(request("/" + number)).send());
    }
    for (CompletableFuture<ContentResponse> each : all) {
      assertEquals("x".repeat(200), each.get(LIMIT, TimeUnit.SECONDS).getContentAsString());
    }
    assertEquals(1, connector.getConnectedEndPoints().size());
  }

  @Test
  void sixtyFourClientsAtOnceGetTheirOwn() throws Exception {
    start(new HttpTest.Echo());
    client.setMaxConnectionsPerDestination(64);
    List<CompletableFuture<Void>> all = new ArrayList<>();
    for (int number = 0; number < 64; ++number) {
      int seed = number;
      all.add(
          CompletableFuture.runAsync(
              () -> {
                try {
                  for (int round = 0; round < 6; ++round) {
                    byte[] body = pattern(round % 2 == 0 ? 2_000 : 150_000, seed + round);
                    ContentResponse response =
                        request("/")
                            .method(HttpMethod.POST)
                            .body(new BytesRequestContent(body))
                            .send();
                    assertArrayEquals(body, response.getContent());
                  }
                } catch (Exception problem) {
                  throw new IllegalStateException(problem);
                }
              },
              task -> new Thread(task).start()));
    }
    for (CompletableFuture<Void> each : all) each.get(2 * LIMIT, TimeUnit.SECONDS);
    assertTrue(connector.getConnectedEndPoints().size() > 8);
  }
}
