// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.eclipse.jetty.client.BytesRequestContent;
import org.eclipse.jetty.client.CompletableResponseListener;
import org.eclipse.jetty.client.ContentResponse;
import org.eclipse.jetty.http.HttpMethod;
import org.eclipse.jetty.http.content.FileMappingHttpContentFactory;
import org.eclipse.jetty.http.content.HttpContent;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.handler.ResourceHandler;
import org.eclipse.jetty.util.Callback;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

/** Requests and answers of all sizes and forms. */
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"tcp", "shm", "socket"})
class HttpTest extends HttpPairTest {
  /** Sends back what it was sent. */
  static final class Echo extends Handler.Abstract {
    @Override
    public boolean handle(Request request, Response response, Callback callback) {
      Content.copy(request, response, callback);
      return true;
    }
  }

  static final int[] SIZES = {0, 1, 1000, 5_000, 20_000, 70_000, 300_000, 5_000_000};

  ContentResponse send(org.eclipse.jetty.client.Request request) throws Exception {
    return new CompletableResponseListener(request, 200 << 20).send().get(LIMIT, TimeUnit.SECONDS);
  }

  @Test
  void bodiesOfAllSizesComeBack() throws Exception {
    start(new Echo());
    for (int size : SIZES) {
      byte[] body = pattern(size, size);
      ContentResponse response =
          send(request("/").method(HttpMethod.POST).body(new BytesRequestContent(body)));
      assertEquals(200, response.getStatus());
      assertArrayEquals(body, response.getContent(), () -> size + " bytes");
    }
  }

  @Test
  void filesAreServedFromTheCache() throws Exception {
    filesAreServed((cached, read) -> cached);
  }

  @Test
  void filesAreServedFromTheCacheWithoutACopy() throws Exception {
    filesAreServed((cached, read) -> new RipcContentFactory(cached));
  }

  @Test
  void filesAreServedWithoutTheCache() throws Exception {
    filesAreServed((cached, read) -> read);
  }

  @Test
  void filesAreServedWithoutTheCacheAndWithoutACopy() throws Exception {
    filesAreServed((cached, read) -> new RipcContentFactory(read));
  }

  @Test
  void filesAreServedFromMappings() throws Exception {
    filesAreServed((cached, read) -> mapped(read));
  }

  @Test
  void filesThatWouldBeMappedAreServedWithoutACopy() throws Exception {
    filesAreServed((cached, read) -> new RipcContentFactory(mapped(read)));
  }

  private static HttpContent.Factory mapped(HttpContent.Factory read) {
    return new FileMappingHttpContentFactory(read, 1000, 2 << 20); // a large file has several
  }

  private void filesAreServed(Handlers.Contents contents) throws Exception {
    Path files = Files.createDirectory(directory.resolve("files"));
    for (int size : SIZES) Files.write(files.resolve("f" + size), pattern(size, size));
    ResourceHandler resources = Handlers.files(files, contents);
    start(resources);
    for (int round = 0; round < 3; ++round) {
      for (int size : SIZES) {
        ContentResponse response = send(request("/f" + size));
        assertEquals(200, response.getStatus());
        assertArrayEquals(pattern(size, size), response.getContent(), () -> size + " bytes");
      }
    }
    assertEquals(404, send(request("/none")).getStatus());
    ContentResponse head = send(request("/f5000").method(HttpMethod.HEAD));
    assertEquals("5000", head.getHeaders().get("Content-Length"));
    assertEquals(0, head.getContent().length);
    ContentResponse part =
        send(request("/f300000").headers(fields -> fields.put("Range", "bytes=1000-250999")));
    assertEquals(206, part.getStatus());
    assertArrayEquals(
        Arrays.copyOfRange(pattern(300_000, 300_000), 1000, 251_000), part.getContent());
  }

  @Test
  void requestsReuseOneConnection() throws Exception {
    start(new Echo());
    for (int count = 0; count < 200; ++count) {
      assertEquals(200, send(request("/" + count)).getStatus());
    }
    assertEquals(1, connector.getConnectedEndPoints().size());
    assertTrue(serverEndPoint().isOpen());
  }
}
