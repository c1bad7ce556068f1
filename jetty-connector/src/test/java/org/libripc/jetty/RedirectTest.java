// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.net.URI;
import java.util.concurrent.ExecutionException;
import org.eclipse.jetty.client.AuthenticationStore;
import org.eclipse.jetty.client.BasicAuthentication;
import org.eclipse.jetty.client.ContentResponse;
import org.eclipse.jetty.client.HttpClient;
import org.eclipse.jetty.client.transport.HttpClientTransportOverHTTP;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.http2.client.HTTP2Client;
import org.eclipse.jetty.http2.client.transport.HttpClientTransportOverHTTP2;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Response;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

/** Requests that Jetty's client makes itself: after a redirect, and in answer to a challenge. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class RedirectTest extends HttpPairTest {
  private static final String HOST = "http://" + SERVICE + ".ripc";

  private static Handler redirecting() {
    return Handlers.handler(
        (request, response, callback) -> {
          String path = request.getHttpURI().getPath();
          if (path.equals("/old")) {
            Response.sendRedirect(request, response, callback, "/new");
          } else if (path.equals("/secret")
              && request.getHeaders().get(HttpHeader.AUTHORIZATION) == null) {
            response.getHeaders().put(HttpHeader.WWW_AUTHENTICATE, "Basic realm=\"test\"");
            Response.writeError(request, response, callback, 401);
          } else {
            Content.Sink.write(response, true, path, callback);
          }
        });
  }

  private void startClient(boolean http2) throws Exception {
    client =
        new HttpClient(
            http2
                ? new HttpClientTransportOverHTTP2(new HTTP2Client(clientConnector()))
                : new HttpClientTransportOverHTTP(clientConnector()));
    clientContext = context();
    ripcClient = new RipcClient(clientContext);
    ripcClient.installIn(client, ".ripc");
    client.start();
  }

  private void assertGets(String expected, String path) throws Exception {
    ContentResponse response = client.GET(HOST + path);
    assertEquals(200, response.getStatus());
    assertEquals(expected, response.getContentAsString());
  }

  @Test
  void hostsOfTheSuffixAreServices() throws Exception {
    startServer(redirecting(), ignored -> {});
    for (boolean http2 : new boolean[] {false, true}) {
      startClient(http2);
      assertGets("/new", "/new");
      assertGets("/new", "/old");
      assertEquals("/new", ripcClient.send(client.newRequest(HOST + "/old")).getContentAsString());
      client.stop();
      clientContext.close();
    }
  }

  @Test
  void aChallengeIsAnswered() throws Exception {
    startServer(redirecting(), ignored -> {});
    startClient(false);
    AuthenticationStore store = client.getAuthenticationStore();
    store.addAuthentication(
        new BasicAuthentication(URI.create(HOST + "/secret"), "test", "user", "password"));
    assertGets("/secret", "/secret");
  }

  @Test
  void otherHostsAreResolvedAsBefore() throws Exception {
    startServer(redirecting(), ignored -> {});
    startClient(false);
    assertThrows(ExecutionException.class, () -> client.GET("http://no-such-host.invalid/"));
    assertThrows(ExecutionException.class, () -> client.GET("http://no-such-service.ripc/"));
  }
}
