// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.eclipse.jetty.client.CompletableResponseListener;
import org.eclipse.jetty.client.ContentResponse;
import org.eclipse.jetty.client.Request;
import org.eclipse.jetty.client.Result;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.Callback;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

/** The thread that waits for an answer receives it. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class AwaitTest extends HttpPairTest {
  private static final int WARM_UP = 50;
  private static final int ROUNDS = 400;

  private final CountDownLatch release = new CountDownLatch(1);

  /** Answers with the path, to "/slow" only when the test allows it. */
  private Handler slowOrPath() {
    return Handlers.handler(
        (request, response, callback) -> {
          String path = request.getHttpURI().getPath();
          if (!path.equals("/slow")) {
            Content.Sink.write(response, true, path, callback);
            return;
          }
          new Thread(
                  () -> {
                    try {
                      release.await();
                      Content.Sink.write(response, true, path, callback);
                    } catch (InterruptedException stopped) {
                      callback.failed(stopped);
                    }
                  })
              .start();
        });
  }

  private String fetch(String path) throws Exception {
    ContentResponse response = ripcClient.send(request(path));
    assertEquals(200, response.getStatus());
    return response.getContentAsString();
  }

  private CompletableFuture<String> fetchElsewhere(String path) {
    return CompletableFuture.supplyAsync(
        () -> {
          try {
            return fetch(path);
          } catch (Exception problem) {
            throw new IllegalStateException(problem);
          }
        },
        task -> new Thread(task).start());
  }

  @Test
  void answersOfAllSizesCome() throws Exception {
    start(new HttpTest.Echo());
    for (int size : HttpTest.SIZES) {
      byte[] body = pattern(size, size);
      CompletableFuture<ContentResponse> answer =
          new CompletableResponseListener(
                  request("/")
                      .method("POST")
                      .body(new org.eclipse.jetty.client.BytesRequestContent(body)),
                  2 * size + 1)
              .send();
      assertArrayEquals(
          body, ripcClient.await(answer, LIMIT, TimeUnit.SECONDS).getContent(), size + " bytes");
    }
  }

  @Test
  void theListenerIsCalledInTheThreadThatWaits() throws Exception {
    start(Handlers.path());
    fetch("/");
    int here = 0;
    for (int count = 0; count < WARM_UP; ++count) {
      CompletableFuture<Thread> answer = new CompletableFuture<>();
      request("/").send((Result result) -> answer.complete(Thread.currentThread()));
      if (ripcClient.await(answer, LIMIT, TimeUnit.SECONDS) == Thread.currentThread()) ++here;
    }
    // The answer may be there before this thread waits.
    assertTrue(here > 0, "never");
  }

  // Counts how often the client's own threads slept: each time means a wake that nobody needs here.
  private static long sleeps(String namePrefix) throws IOException {
    long sum = 0;
    try (Stream<Path> threads = Files.list(Path.of("/proc/self/task"))) {
      for (Path each : threads.toList()) {
        if (!Files.readString(each.resolve("comm")).startsWith(namePrefix)) continue;
        String status = Files.readString(each.resolve("status"));
        sum +=
            Long.parseLong(
                status.replaceAll("(?s).*\\nvoluntary_ctxt_switches:\\s*(\\d+).*", "$1"));
      }
    }
    return sum;
  }

  @Test
  void noThreadOfTheClientIsWokenForAnAnswer() throws Exception {
    start(Handlers.path());
    for (int count = 0; count < WARM_UP; ++count) fetch("/");
    long before = sleeps("client-");
    for (int count = 0; count < ROUNDS; ++count) fetch("/");
    long woken = sleeps("client-") - before;
    assertTrue(woken < ROUNDS / 10, woken + " times");
  }

  @Test
  void noThreadOfTheClientIsWokenForPartsOfAnAnswer() throws Exception {
    int parts = 20;
    int size = 32 << 10;
    start(
        Handlers.handler(
            (request, response, callback) -> writeParts(response, parts, size, callback)));
    long before = 0;
    for (int count = 0; count < 2 * WARM_UP; ++count) {
      if (count == WARM_UP) before = sleeps("client-");
      assertEquals(parts * size, ripcClient.send(request("/")).getContent().length);
    }
    long woken = sleeps("client-") - before;
    assertTrue(woken < WARM_UP, woken + " times");
  }

  private static void writeParts(Response response, int left, int size, Callback callback) {
    Callback next =
        left == 1
            ? callback
            : Callback.from(() -> writeParts(response, left - 1, size, callback), callback::failed);
    response.write(left == 1, ByteBuffer.allocateDirect(size), next);
  }

  @Test
  void othersAreAnsweredWhileOneWaitsForLong() throws Exception {
    start(slowOrPath());
    CompletableFuture<String> slow = fetchElsewhere("/slow");
    for (int count = 0; count < WARM_UP; ++count) {
      assertEquals("/" + count, fetch("/" + count));
      ContentResponse response = request("/" + count).send();
      assertEquals("/" + count, response.getContentAsString());
    }
    assertFalse(slow.isDone());
    release.countDown();
    assertEquals("/slow", slow.get(LIMIT, TimeUnit.SECONDS));
  }

  @Test
  void manyThreadsWaitAtOnce() throws Exception {
    start(Handlers.path());
    CompletableFuture<?>[] all = new CompletableFuture<?>[16];
    for (int index = 0; index < all.length; ++index) {
      String path = "/" + index;
      all[index] =
          CompletableFuture.runAsync(
              () -> {
                try {
                  for (int count = 0; count < WARM_UP; ++count) assertEquals(path, fetch(path));
                } catch (Exception problem) {
                  throw new IllegalStateException(problem);
                }
              },
              task -> new Thread(task).start());
    }
    CompletableFuture.allOf(all).get(2 * LIMIT, TimeUnit.SECONDS);
  }

  @Test
  void aRequestThatTakesTooLongIsGivenUp() throws Exception {
    start(slowOrPath());
    Request request = request("/slow").timeout(50, TimeUnit.MILLISECONDS);
    assertThrows(TimeoutException.class, () -> ripcClient.send(request));
    CompletableFuture<Object> never = new CompletableFuture<>();
    assertThrows(TimeoutException.class, () -> ripcClient.await(never, 20, TimeUnit.MILLISECONDS));
    assertEquals("/after", fetch("/after"));
    release.countDown();
  }

  @Test
  void aThreadThatIsInterruptedGivesItsRequestUp() throws Exception {
    start(slowOrPath());
    AtomicReference<Request> sent = new AtomicReference<>();
    CompletableFuture<Throwable> end = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              sent.set(request("/slow"));
              end.complete(assertThrows(Throwable.class, () -> ripcClient.send(sent.get())));
            });
    thread.start();
    assertTrue(eventually(() -> connector.getConnectedEndPoints().size() == 1));
    thread.interrupt();
    assertInstanceOf(InterruptedException.class, end.get(LIMIT, TimeUnit.SECONDS));
    assertInstanceOf(InterruptedException.class, sent.get().getAbortCause());
    assertEquals("/after", fetch("/after"));
    release.countDown();
  }

  @Test
  void aFailureOfTheRequestComes() throws Exception {
    start(
        Handlers.handler(
            (request, response, callback) ->
                request.getConnectionMetaData().getConnection().getEndPoint().close()));
    ExecutionException problem = assertThrows(ExecutionException.class, () -> fetch("/"));
    assertInstanceOf(IOException.class, problem.getCause());
    RuntimeException own = new IllegalStateException("as the test wants it");
    CompletableFuture<Object> failed = new CompletableFuture<>();
    Thread thread = new Thread(() -> failed.completeExceptionally(own));
    thread.start();
    problem =
        assertThrows(
            ExecutionException.class, () -> ripcClient.await(failed, LIMIT, TimeUnit.SECONDS));
    assertSame(own, problem.getCause());
  }

  @Test
  void theEndOfTheClientEndsTheWait() throws Exception {
    start(slowOrPath());
    CompletableFuture<String> slow = fetchElsewhere("/slow");
    assertTrue(eventually(() -> connector.getConnectedEndPoints().size() == 1));
    client.stop();
    assertThrows(ExecutionException.class, () -> slow.get(LIMIT, TimeUnit.SECONDS));
    // Nobody receives any more, but a complete result is returned all the same.
    assertEquals(1, ripcClient.await(CompletableFuture.completedFuture(1), 0, TimeUnit.SECONDS));
    release.countDown();
  }

  @Test
  void aHandlerMayWaitForAnotherRequest() throws Exception {
    start(
        Handlers.handler(
            (request, response, callback) -> {
              String path = request.getHttpURI().getPath();
              String said = path.equals("/outer") ? "of " + fetch("/inner") : path;
              Content.Sink.write(response, true, said, callback);
            }));
    assertEquals("of /inner", fetch("/outer"));
  }

  @Test
  void aRequestListenerMayWaitForAnotherRequest() throws Exception {
    start(Handlers.path());
    for (int count = 0; count < 5; ++count) {
      Request outer =
          request("/outer")
              .onRequestBegin(
                  begun -> {
                    try {
                      assertEquals("/inner", request("/inner").send().getContentAsString());
                      assertEquals("/inner", fetch("/inner"));
                    } catch (Exception problem) {
                      begun.abort(problem);
                    }
                  });
      assertEquals("/outer", ripcClient.send(outer).getContentAsString());
    }
  }
}
