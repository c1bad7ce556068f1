// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

/** A client that sends all its requests, ends its stream, and then reads all answers. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"tcp", "shm", "socket"})
class HalfCloseTest extends HttpPairTest {
  private static final String HEAD =
      "POST /%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  private static final String BODY = "4\r\nbody\r\n0\r\n\r\n";

  private static String request(String path, String body) {
    return String.format(HEAD, path) + body;
  }

  private static Handler reading() {
    return Handlers.handler(
        (request, response, callback) ->
            Content.Sink.write(
                response,
                true,
                request.getHttpURI().getPath() + Content.Source.asString(request),
                callback));
  }

  private static int count(String answers, String text) {
    return answers.split(text, -1).length - 1;
  }

  @RepeatedTest(15)
  void pipelinedRequestsAreAllAnswered() throws Exception {
    startServer(reading(), ignored -> {});
    try (RawConnection connection = raw()) {
      String all = request("one", BODY) + request("two", BODY);
      int half = all.length() / 3;
      connection.write(all.substring(0, half));
      connection.write(all.substring(half));
      connection.shutdownOutput();
      String answers = connection.readAll();
      assertEquals(1, count(answers, "/onebody"), answers);
      assertEquals(1, count(answers, "/twobody"), answers);
    }
  }

  @RepeatedTest(5)
  void requestsWithUnreadContentAreAllAnswered() throws Exception {
    startServer(Handlers.path(), ignored -> {});
    try (RawConnection connection = raw()) {
      connection.write(request("one", BODY) + request("two", BODY));
      connection.shutdownOutput();
      String answers = connection.readAll();
      assertEquals(1, count(answers, "/one"), answers);
      assertEquals(1, count(answers, "/two"), answers);
    }
  }

  // Jetty's own rule, on every transport: if a handler has answered without reading the content,
  // and the content has not come by then, the connection ends. Whether it has come depends on
  // timing.
  @Test
  void contentThatIsUnreadAndHasNotComeEndsTheConnection() throws Exception {
    startServer(Handlers.path(), ignored -> {});
    try (RawConnection connection = raw()) {
      connection.write(request("one", ""));
      String answers = connection.readAll();
      assertTrue(answers.endsWith("/one"), answers);
    }
  }
}
