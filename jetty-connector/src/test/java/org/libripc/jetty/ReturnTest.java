// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.eclipse.jetty.client.CompletableResponseListener;
import org.eclipse.jetty.io.RetainableByteBuffer;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.Callback;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.stream.StreamOptions;

/** Clients that offer return buffers, and servers that use them. */
@Tag("jna")
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class ReturnTest extends HttpPairTest {
  private static final int OFFERED = 300_000;

  @Override
  StreamOptions clientOptions() {
    return StreamOptions.DEFAULT.withReturnBytes(OFFERED);
  }

  // Answers with as many bytes as the path says, out of registered memory.
  private final Handler pattern =
      new Handler.Abstract() {
        @Override
        public boolean handle(Request request, Response response, Callback callback) {
          int size = Integer.parseInt(request.getHttpURI().getPath().substring(1));
          RetainableByteBuffer buffer = server.getByteBufferPool().acquire(size, true);
          ByteBuffer bytes = buffer.getByteBuffer();
          bytes.clear().limit(size);
          bytes.put(pattern(size, size)).flip();
          response.write(true, bytes, Callback.from(callback, buffer::release));
          return true;
        }
      };

  private void fetch(int size) throws Exception {
    byte[] answer =
        new CompletableResponseListener(request("/" + size), 10_000_000)
            .send()
            .get(LIMIT, TimeUnit.SECONDS)
            .getContent();
    assertArrayEquals(pattern(size, size), answer);
  }

  @Test
  void aLargeAnswerIsWrittenIntoTheReturnBuffer() throws Exception {
    start(pattern);
    for (int count = 1; count <= 20; ++count) {
      fetch(200_000);
      assertEquals(count, ripcClient.getReturnedParts());
    }
  }

  @Test
  void theRestOfALargerAnswerFollows() throws Exception {
    start(pattern);
    fetch(2_000_000);
    assertEquals(1, ripcClient.getReturnedParts());
    fetch(OFFERED + 1);
    assertEquals(2, ripcClient.getReturnedParts());
  }

  @Test
  void smallAnswersLeaveTheOfferForLaterOnes() throws Exception {
    start(pattern);
    fetch(10);
    fetch(500);
    assertEquals(0, ripcClient.getReturnedParts());
    fetch(100_000);
    assertEquals(1, ripcClient.getReturnedParts());
  }

  @Test
  void answersOfAllSizesComeWhole() throws Exception {
    start(pattern);
    Random random = new Random(7);
    for (int count = 0; count < 200; ++count) fetch(1 << random.nextInt(21) | random.nextInt(100));
    assertTrue(ripcClient.getReturnedParts() > 20);
  }

  @Test
  void theMemoryOfAnOfferComesBackWithTheEndOfItsConnection() throws Exception {
    start(pattern);
    fetch(10);
    long leased = clientContext.poolStatistics().leased();
    assertTrue(leased >= OFFERED, "it is offered");
    client.stop();
    ripcClient.stop();
    clientContext.lease(OFFERED).release();
    assertTrue(clientContext.poolStatistics().leased() <= leased, "the memory is leased again");
  }
}
