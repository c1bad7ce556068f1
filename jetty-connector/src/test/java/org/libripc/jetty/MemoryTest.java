// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.eclipse.jetty.client.BytesRequestContent;
import org.eclipse.jetty.http.HttpMethod;
import org.eclipse.jetty.http.content.CachingHttpContentFactory;
import org.eclipse.jetty.io.RetainableByteBuffer;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.handler.ResourceHandler;
import org.eclipse.jetty.util.BufferUtil;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.resource.ResourceFactory;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.Ripc;
import org.libripc.RipcBuilder;
import org.libripc.stream.StreamOptions;

/** What is copied, and what memory a connection takes. */
@Tag("jna")
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class MemoryTest extends HttpPairTest {
  private long keepReleased = 64 << 20;

  @Override
  RipcBuilder options() {
    return Ripc.builder().keepReleased(keepReleased);
  }

  @Test
  void writesFromThePoolAreNotCopied() throws Exception {
    int size = 4_000_000;
    AtomicReference<Object> used = new AtomicReference<>();
    start(
        new Handler.Abstract() {
          @Override
          public boolean handle(Request request, Response response, Callback callback) {
            RetainableByteBuffer buffer =
                request.getComponents().getByteBufferPool().acquire(size, true);
            used.set(request.getComponents().getByteBufferPool());
            BufferUtil.append(buffer.getByteBuffer(), ByteBuffer.wrap(pattern(size, 5)));
            response.write(true, buffer.getByteBuffer(), Callback.from(buffer::release, callback));
            return true;
          }
        });
    assertArrayEquals(pattern(size, 5), new HttpTest().send(request("/")).getContent());
    assertTrue(used.get() instanceof RipcByteBufferPool);
    assertEquals(0, ((RipcConnector) connector).getCopiedBytes());
  }

  @Test
  void heapBytesAreCopiedOnce() throws Exception {
    int size = 4_000_000;
    start(
        new Handler.Abstract() {
          @Override
          public boolean handle(Request request, Response response, Callback callback) {
            response.write(true, ByteBuffer.wrap(pattern(size, 5)), callback);
            return true;
          }
        });
    assertArrayEquals(pattern(size, 5), new HttpTest().send(request("/")).getContent());
    long copied = ((RipcConnector) connector).getCopiedBytes();
    assertTrue(copied >= size && copied < size + 10_000, copied + " bytes were copied");
  }

  @Test
  void aCachedFileIsRegisteredOnceAndSentWithoutACopy() throws Exception {
    int size = StreamOptions.DEFAULT.copyLimit() + 50_000;
    Path files = Files.createDirectory(directory.resolve("files"));
    Files.write(files.resolve("file"), pattern(size, 1));
    ResourceHandler resources = new ResourceHandler();
    resources.setBaseResource(ResourceFactory.root().newResource(files));
    start(resources);
    HttpTest test = new HttpTest();
    assertArrayEquals(pattern(size, 1), test.send(request("/file")).getContent());
    long copied = ((RipcConnector) connector).getCopiedBytes();
    long leased = serverContext.poolStatistics().leased();
    for (int count = 0; count < 20; ++count) {
      assertArrayEquals(pattern(size, 1), test.send(request("/file")).getContent());
    }
    assertEquals(copied, ((RipcConnector) connector).getCopiedBytes());
    long more = serverContext.poolStatistics().leased() - leased;
    assertTrue(more < size, more + " bytes were leased for requests after the first");
    // What Jetty leaves in its cache would be reported as a leak during another test.
    ((CachingHttpContentFactory) resources.getHttpContentFactory()).flushCache();
  }

  @Test
  void nothingIsLeasedWhenEverythingWasGivenBack() throws Exception {
    start(new HttpTest.Echo());
    for (int round = 0; round < 5; ++round) {
      request("/").method(HttpMethod.POST).body(new BytesRequestContent(new byte[900_000])).send();
    }
    client.stop();
    server.stop();
    assertTrue(serverContext.poolStatistics().leased() > 0, "memory is kept for the next lease");
    assertEquals(0, serverContext.poolStatistics().inUse());
    assertEquals(0, clientContext.poolStatistics().inUse());
  }

  @Test
  void aPoolKnowsWhichBuffersWereNotReleased() throws Exception {
    clientContext = context();
    RipcByteBufferPool.Tracking pool = new RipcByteBufferPool.Tracking(clientContext);
    for (boolean direct : new boolean[] {true, false}) {
      RetainableByteBuffer.Mutable buffer = pool.acquire(1000, direct);
      RetainableByteBuffer slice = buffer.slice();
      assertEquals(1, pool.getLeaks().size());
      assertEquals(1000, pool.getLeaks().iterator().next().size());
      assertEquals(direct, clientContext.poolStatistics().inUse() > 0);
      assertTrue(pool.dumpLeaks().contains("aPoolKnowsWhichBuffersWereNotReleased"));
      assertFalse(buffer.release());
      assertEquals(1, pool.getLeaks().size(), "of the slice");
      assertTrue(slice.release());
      assertEquals(Set.of(), pool.getLeaks());
      assertEquals(0, clientContext.poolStatistics().inUse());
      assertThrows(IllegalStateException.class, buffer::release);
    }
  }

  @Test
  void memoryComesBackWhenTheConnectionIsOver() throws Exception {
    keepReleased = 0;
    start(new HttpTest.Echo());
    long leaks = Ripc.leaksReported();
    long before = serverContext.poolStatistics().leased();
    for (int round = 0; round < 20; ++round) {
      byte[] body = pattern(900_000, round);
      assertEquals(
          200,
          request("/")
              .method(HttpMethod.POST)
              .body(new BytesRequestContent(body))
              .send()
              .getStatus());
    }
    client.stop();
    assertMemoryIsBack(before, leaks);
  }
}
