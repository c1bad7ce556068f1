// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.libripc.jetty.Handlers.ok;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.eclipse.jetty.client.BytesRequestContent;
import org.eclipse.jetty.client.CompletableResponseListener;
import org.eclipse.jetty.client.ContentResponse;
import org.eclipse.jetty.http.HttpMethod;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.thread.QueuedThreadPool;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.ServiceId;

/** Services, their threads and their addresses: what only libripc has. */
@Tag("jna")
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class ConnectorTest extends HttpPairTest {
  // Refuses each task of the connector once, as a pool that is full does.
  private static final class Overloaded extends QueuedThreadPool {
    private final Set<Runnable> refused = ConcurrentHashMap.newKeySet();
    final AtomicLong count = new AtomicLong();
    volatile boolean full;

    @Override
    public void execute(Runnable task) {
      boolean ours = task.getClass().getName().startsWith("org.libripc.jetty.");
      if (full && ours && !refused.remove(task)) {
        refused.add(task);
        count.incrementAndGet();
        throw new RejectedExecutionException("full");
      }
      super.execute(task);
    }
  }

  private final Overloaded threads = new Overloaded();

  @Override
  QueuedThreadPool serverThreads() {
    return threads;
  }

  @Test
  void tasksThatAFullPoolRefusesRunLater() throws Exception {
    start(new HttpTest.Echo());
    threads.full = true;
    for (int round = 0; round < 10; ++round) {
      byte[] body = pattern(1_500_000, round);
      List<CompletableFuture<ContentResponse>> all = new ArrayList<>();
      for (int number = 0; number < 4; ++number) {
        var request = request("/").method(HttpMethod.POST).body(new BytesRequestContent(body));
        all.add(new CompletableResponseListener(request, 2_000_000).send());
      }
      for (CompletableFuture<ContentResponse> each : all) {
        assertArrayEquals(body, each.get(LIMIT, TimeUnit.SECONDS).getContent());
      }
    }
    client.stop();
    assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
    assertTrue(threads.count.get() > 0, "tasks were refused");
  }

  @Test
  void aServerThatDoesNotExistIsAnError() throws Exception {
    start(ok());
    ExecutionException none =
        assertThrows(
            ExecutionException.class,
            () ->
                client
                    .newRequest("http://nobody/")
                    .transport(ripcClient.transport("nobody at all"))
                    .timeout(LIMIT, TimeUnit.SECONDS)
                    .send());
    assertTrue(none.getMessage().contains("NO_SERVICE"), none.getMessage());
    assertEquals(0, ripcClient.getConnections());
  }

  @Test
  void serversAndClientsRestart() throws Exception {
    start(ok());
    for (int round = 0; round < 3; ++round) {
      assertEquals(200, request("/").send().getStatus());
      server.stop();
      server.start();
      assertTrue(eventually(() -> ripcClient.getConnections() == 0), "the old connection is known");
    }
    client.stop();
    client.start();
    assertEquals(200, request("/").send().getStatus());
  }

  @Test
  void sixtyFourServicesAtOnceGetTheirOwn() throws Exception {
    start(new HttpTest.Echo());
    List<RipcClient> services = new ArrayList<>();
    List<CompletableFuture<ContentResponse>> all = new ArrayList<>();
    try {
      for (int number = 0; number < 64; ++number) {
        RipcClient service = new RipcClient(clientContext);
        services.add(service);
        service.setExecutor(client.getExecutor());
        service.setScheduler(client.getScheduler());
        service.start();
      }
      for (int round = 0; round < 4; ++round) {
        all.clear();
        for (int number = 0; number < 64; ++number) {
          var request = client.newRequest(url("/")).timeout(LIMIT, TimeUnit.SECONDS);
          request.method(HttpMethod.POST).transport(services.get(number).transport(SERVICE));
          request.body(new BytesRequestContent(pattern(round % 2 == 0 ? 2_000 : 150_000, number)));
          all.add(new CompletableResponseListener(request).send());
        }
        for (int number = 0; number < 64; ++number) {
          byte[] content = all.get(number).get(2 * LIMIT, TimeUnit.SECONDS).getContent();
          assertArrayEquals(pattern(round % 2 == 0 ? 2_000 : 150_000, number), content);
        }
      }
      assertEquals(
          64,
          connector.getConnectedEndPoints().stream()
              .map(each -> ((RipcAddress) each.getRemoteSocketAddress()).service())
              .distinct()
              .count());
    } finally {
      for (RipcClient each : services) each.stop(); // before the threads they share
    }
  }

  @Test
  void theAddressesOfAConnectionAreThoseOfItsServices() throws Exception {
    AtomicReference<String> seen = new AtomicReference<>();
    start(
        new Handler.Abstract.NonBlocking() {
          @Override
          public boolean handle(Request request, Response response, Callback callback) {
            seen.set(request.getConnectionMetaData().getRemoteSocketAddress().toString());
            Content.Sink.write(response, true, "", callback);
            return true;
          }
        });
    assertEquals(200, request("/").send().getStatus());
    RipcAddress remote = (RipcAddress) serverEndPoint().getRemoteSocketAddress();
    assertEquals(ripcClient.getServiceId(), remote.service());
    assertEquals(remote.toString(), seen.get());
    assertEquals(new RipcAddress(ServiceId.ofName(SERVICE), 0), transport().getSocketAddress());
    assertFalse(remote.equals(transport().getSocketAddress()));
    assertTrue(StandardCharsets.US_ASCII.newEncoder().canEncode(remote.toString()));
  }
}
