// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.eclipse.jetty.client.BytesRequestContent;
import org.eclipse.jetty.client.CompletableResponseListener;
import org.eclipse.jetty.client.ContentResponse;
import org.eclipse.jetty.http.HttpMethod;
import org.eclipse.jetty.io.Connection;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.io.EndPoint;
import org.eclipse.jetty.io.RetainableByteBuffer;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.handler.ResourceHandler;
import org.eclipse.jetty.util.BufferUtil;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.resource.ResourceFactory;
import org.eclipse.jetty.util.thread.QueuedThreadPool;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.ItemKind;
import org.libripc.Message;
import org.libripc.Outgoing;
import org.libripc.Ripc;
import org.libripc.RipcBuilder;
import org.libripc.Service;
import org.libripc.ServiceId;

/** What only libripc has: who may connect, registered memory, peers that break the protocol. */
@Tag("jna")
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class ConnectorTest extends HttpPairTest {
  private static final Handler OK =
      new Handler.Abstract.NonBlocking() {
        @Override
        public boolean handle(Request request, Response response, Callback callback) {
          callback.succeeded();
          return true;
        }
      };

  @Test
  void onlyServicesThatAreAdmittedMayConnect() throws Exception {
    List<ServiceId> asked = new ArrayList<>();
    ServiceId friend = ServiceId.ofName("a friend");
    start(
        OK,
        changed ->
            ((RipcConnector) changed)
                .setAccess(
                    id -> {
                      asked.add(id);
                      return id.equals(friend);
                    }));
    ExecutionException refused = assertThrows(ExecutionException.class, () -> request("/").send());
    assertTrue(refused.getMessage().contains("does not admit"), refused.getMessage());
    assertEquals(List.of(ripcClient.getServiceId()), asked);
    ripcClient.stop();
    ripcClient.setServiceName("a friend");
    ripcClient.start();
    assertEquals(200, request("/").send().getStatus());
  }

  @Test
  void aPolicyThatFailsHarmsNobodyElse() throws Exception {
    AtomicReference<RuntimeException> failure = new AtomicReference<>(new RuntimeException("no"));
    start(
        OK,
        changed ->
            ((RipcConnector) changed)
                .setAccess(
                    id -> {
                      RuntimeException first = failure.getAndSet(null);
                      if (first != null) throw first;
                      return true;
                    }));
    assertThrows(ExecutionException.class, () -> request("/").send());
    assertEquals(200, request("/").send().getStatus());
  }

  @Test
  void aConnectionThatCannotBeMadeIsRefusedAtOnce() throws Exception {
    startServer(
        OK,
        changed ->
            changed.setConnectionFactories(
                List.of(
                    new HttpConnectionFactory() {
                      @Override
                      public Connection newConnection(Connector connector, EndPoint endPoint) {
                        throw new IllegalStateException("no connection");
                      }
                    })));
    ExecutionException refused = assertThrows(ExecutionException.class, this::raw);
    assertTrue(refused.getMessage().contains("given up"), refused.getMessage());
    assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
  }

  @Test
  void anErrorInAPolicyHarmsNobodyElse() throws Exception {
    AtomicReference<Error> failure = new AtomicReference<>(new LinkageError("no"));
    start(
        OK,
        changed ->
            ((RipcConnector) changed)
                .setAccess(
                    id -> {
                      Error first = failure.getAndSet(null);
                      if (first != null) throw first;
                      return true;
                    }));
    assertThrows(ExecutionException.class, () -> request("/").send());
    assertEquals(200, request("/").send().getStatus());
  }

  @Test
  void connectionsAreLimited() throws Exception {
    startServer(OK, changed -> ((RipcConnector) changed).setMaxConnections(2));
    RawConnection first = raw();
    RawConnection second = raw();
    ExecutionException refused = assertThrows(ExecutionException.class, this::raw);
    assertTrue(refused.getMessage().contains("as many connections"), refused.getMessage());
    first.close();
    assertTrue(eventually(() -> connector.getConnectedEndPoints().size() == 1));
    raw().close();
    second.close();
  }

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
  void whatAFullPoolRefusesIsDoneLater() throws Exception {
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
    start(OK);
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

  private RipcBuilder contextOptions = Ripc.builder();

  @Override
  RipcBuilder options() {
    return contextOptions;
  }

  private static void signal(Process process, String name) {
    try {
      new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start().waitFor();
    } catch (IOException | InterruptedException problem) {
      throw new IllegalStateException(problem);
    }
  }

  @Test
  void aStoppedClientThatIsRefusedHoldsUpNobodyElse() throws Exception {
    contextOptions = Ripc.builder().resolveTimeout(3 * LIMIT, TimeUnit.SECONDS);
    CompletableFuture<Process> process = new CompletableFuture<>();
    CountDownLatch asked = new CountDownLatch(1);
    Set<ServiceId> friends = ConcurrentHashMap.newKeySet();
    start(
        OK,
        changed ->
            ((RipcConnector) changed)
                .setAccess(
                    id -> {
                      if (friends.contains(id)) return true;
                      signal(process.join(), "STOP");
                      asked.countDown();
                      return false;
                    }));
    friends.add(ripcClient.getServiceId());
    process.complete(fetcher("/ 1 1 0 any\n"));
    try {
      assertTrue(asked.await(LIMIT, TimeUnit.SECONDS), "it connects");
      assertEquals(200, request("/").send().getStatus());
    } finally {
      process.join().destroyForcibly().waitFor();
    }
  }

  // What a client of this name has left behind that was killed.
  private void leaveConnection(String name) throws Exception {
    try (Ripc other = context();
        Service killed = other.service().name(name).register()) {
      killed.lending(true);
      Frame open = new Frame(Frame.Type.OPEN, Frame.FILLER, Frame.Reason.NONE, 0, 0, 4096);
      killed.send(
          ServiceId.ofName(SERVICE), new Outgoing().tag(1).add(open.encode(), ItemKind.SHORT));
      assertEquals(Frame.Type.ACCEPT, next(killed, 1).type());
    }
  }

  @Test
  void aClientThatComesBackUnderItsNameConnectsBesideWhatItLeft() throws Exception {
    startServer(OK, ignored -> {});
    leaveConnection("comes back");
    clientContext = context();
    ripcClient = new RipcClient(clientContext);
    ripcClient.setServiceName("comes back");
    ripcClient.start();
    try (RawConnection connection = raw()) {
      connection.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      assertTrue(connection.readUntil("\r\n\r\n").startsWith("HTTP/1.1 200"));
    }
  }

  @Test
  void whoIsToldOfCreditForAnUnknownConnectionSaysSo() throws Exception {
    startServer(OK, ignored -> {});
    clientContext = context();
    try (Service rough = clientContext.register()) {
      rough.lending(true);
      Frame probe = new Frame(Frame.Type.CREDIT, Frame.FILLER, Frame.Reason.NONE, 0, 0, 0);
      rough.send(
          ServiceId.ofName(SERVICE), new Outgoing().tag(5).add(probe.encode(), ItemKind.SHORT));
      assertEquals(Frame.Reason.UNKNOWN, next(rough, 5).reason());
    }
  }

  @Test
  void serversAndClientsRestart() throws Exception {
    start(OK);
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
  void whatAHandlerWritesFromThePoolIsNotCopied() throws Exception {
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
  void whatLiesOnTheHeapIsCopiedOnce() throws Exception {
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
  }

  @Test
  void memoryComesBackWhenTheConnectionIsOver() throws Exception {
    contextOptions = Ripc.builder().keepReleased(0);
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
    assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
    assertTrue(
        eventually(() -> leasedAfterCollection() <= before),
        () -> before + " bytes before, then " + serverContext.poolStatistics());
    assertEquals(leaks, Ripc.leaksReported());
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
  void whoBreaksTheProtocolIsToldAndForgotten() throws Exception {
    startServer(OK, ignored -> {});
    clientContext = context();
    ServiceId to = ServiceId.ofName(SERVICE);
    try (Service rough = clientContext.register()) {
      rough.lending(true);
      byte[][] nonsense = {{}, new byte[20], new byte[5000], {1, 9, 0, 0}};
      for (byte[] each : nonsense) {
        rough.send(to, new Outgoing().tag(7).add(ByteBuffer.wrap(each), ItemKind.LONG));
        rough.send(to, new Outgoing().tag(7));
      }
      // A message of a connection that there is not.
      Frame data = new Frame(Frame.Type.DATA, 0, Frame.Reason.NONE, 0, 0, 0);
      rough.send(to, new Outgoing().tag(8).add(data.encode(), ItemKind.SHORT));
      assertEquals(Frame.Reason.UNKNOWN, next(rough, 8).reason());
      // One that is opened, and then has a message from far ahead.
      Frame open = new Frame(Frame.Type.OPEN, Frame.FILLER, Frame.Reason.NONE, 0, 0, 4096);
      rough.send(to, new Outgoing().tag(9).add(open.encode(), ItemKind.SHORT));
      assertEquals(Frame.Type.ACCEPT, next(rough, 9).type());
      assertEquals(1, connector.getConnectedEndPoints().size());
      Frame ahead = new Frame(Frame.Type.DATA, 0, Frame.Reason.NONE, 1 << 30, 0, 0);
      rough.send(to, new Outgoing().tag(9).add(ahead.encode(), ItemKind.SHORT));
      assertEquals(Frame.Reason.PROTOCOL, next(rough, 9).reason());
      assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
      // And one that has read what was never sent.
      rough.send(to, new Outgoing().tag(10).add(open.encode(), ItemKind.SHORT));
      assertEquals(Frame.Type.ACCEPT, next(rough, 10).type());
      Frame greedy = new Frame(Frame.Type.CREDIT, 0, Frame.Reason.NONE, 0, 1L << 40, 0);
      rough.send(to, new Outgoing().tag(10).add(greedy.encode(), ItemKind.SHORT));
      assertEquals(Frame.Reason.PROTOCOL, next(rough, 10).reason());
      // And one that accepts what it has asked for itself.
      rough.send(to, new Outgoing().tag(11).add(open.encode(), ItemKind.SHORT));
      assertEquals(Frame.Type.ACCEPT, next(rough, 11).type());
      Frame accept = new Frame(Frame.Type.ACCEPT, Frame.FILLER, Frame.Reason.NONE, 0, 0, 4096);
      rough.send(to, new Outgoing().tag(11).add(accept.encode(), ItemKind.SHORT));
      assertEquals(Frame.Reason.PROTOCOL, next(rough, 11).reason());
    }
    try (RawConnection good = raw()) {
      good.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      assertTrue(good.readUntil("\r\n\r\n").startsWith("HTTP/1.1 200"));
    }
  }

  @Test
  void connectionsThatAreBeingAcceptedCountForTheLimit() throws Exception {
    contextOptions = Ripc.builder().resolveTimeout(3 * LIMIT, TimeUnit.SECONDS);
    CompletableFuture<Process> process = new CompletableFuture<>();
    CountDownLatch asked = new CountDownLatch(1);
    Set<ServiceId> friends = ConcurrentHashMap.newKeySet();
    start(
        OK,
        changed -> {
          RipcConnector ripc = (RipcConnector) changed;
          ripc.setMaxConnections(1);
          ripc.setAccess(
              id -> {
                if (!friends.contains(id)) {
                  signal(process.join(), "STOP");
                  asked.countDown();
                }
                return true;
              });
        });
    friends.add(ripcClient.getServiceId());
    process.complete(fetcher("/ 1 1 0 any\n"));
    try {
      assertTrue(asked.await(LIMIT, TimeUnit.SECONDS), "it connects");
      ExecutionException refused =
          assertThrows(ExecutionException.class, () -> request("/").send());
      assertTrue(refused.getMessage().contains("as many connections"), refused.getMessage());
    } finally {
      process.join().destroyForcibly().waitFor();
    }
    assertTrue(eventually(() -> answers()), "there is room when it is given up");
  }

  private boolean answers() {
    try {
      return request("/").send().getStatus() == 200;
    } catch (Exception refused) {
      return false;
    }
  }

  @Test
  void whatOneConnectionLeavesUnreadTakesNoMessagesFromTheOthers() throws Exception {
    int size = 2_000;
    CountDownLatch go = new CountDownLatch(1);
    CompletableFuture<Boolean> same = new CompletableFuture<>();
    byte[] body = pattern(size, 1);
    start(
        new Handler.Abstract() {
          @Override
          public boolean handle(Request request, Response response, Callback callback)
              throws Exception {
            if (request.getLength() == size) {
              go.await();
              same.complete(Content.Source.asByteBuffer(request).equals(ByteBuffer.wrap(body)));
            }
            callback.succeeded();
            return true;
          }
        },
        changed -> ((RipcConnector) changed).setMaxConnections(4)); // so it needs few
    ServiceId to = ServiceId.ofName(SERVICE);
    try (Service sender = clientContext.register()) {
      sender.lending(true);
      Frame open = new Frame(Frame.Type.OPEN, Frame.FILLER, Frame.Reason.NONE, 0, 0, 1 << 20);
      sender.send(to, new Outgoing().tag(1).add(open.encode(), ItemKind.SHORT));
      assertEquals(Frame.Type.ACCEPT, next(sender, 1).type());
      String head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + size + "\r\n\r\n";
      data(sender, 0, StandardCharsets.US_ASCII.encode(head));
      for (int index = 0; index < size; ++index) {
        data(sender, index + 1, ByteBuffer.wrap(body, index, 1));
      }
      assertEquals(200, request("/").send().getStatus());
      go.countDown();
      assertTrue(same.get(LIMIT, TimeUnit.SECONDS));
    }
  }

  private void data(Service sender, int sequence, ByteBuffer bytes) throws Exception {
    Frame data = new Frame(Frame.Type.DATA, 0, Frame.Reason.NONE, sequence, 0, 0);
    Outgoing message = new Outgoing().tag(1).add(data.encode(), ItemKind.SHORT);
    sender.send(
        ServiceId.ofName(SERVICE), message.add(bytes, ItemKind.LONG), LIMIT, TimeUnit.SECONDS);
  }

  @Test
  void aClientThatAllowsMoreThanTheWindowGetsTheWindow() throws Exception {
    AtomicLong written = new AtomicLong();
    startServer(
        new Handler.Abstract() {
          @Override
          public boolean handle(Request request, Response response, Callback callback)
              throws Exception {
            for (int count = 0; count < 100; ++count) {
              Content.Sink.write(response, false, ByteBuffer.wrap(pattern(200_000, count)));
              written.addAndGet(200_000);
            }
            callback.succeeded();
            return true;
          }
        },
        ignored -> {});
    clientContext = context();
    ServiceId to = ServiceId.ofName(SERVICE);
    try (Service greedy = clientContext.register()) {
      greedy.lending(true);
      Frame open =
          new Frame(Frame.Type.OPEN, Frame.FILLER, Frame.Reason.NONE, 0, 0, Integer.MAX_VALUE);
      greedy.send(to, new Outgoing().tag(1).add(open.encode(), ItemKind.SHORT));
      assertEquals(Frame.Type.ACCEPT, next(greedy, 1).type());
      Frame data = new Frame(Frame.Type.DATA, 0, Frame.Reason.NONE, 0, 0, 0);
      ByteBuffer request = StandardCharsets.US_ASCII.encode("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      greedy.send(
          to, new Outgoing().tag(1).add(data.encode(), ItemKind.SHORT).add(request, ItemKind.LONG));
      EndPoint endPoint = serverEndPoint();
      assertTrue(eventually(() -> endPoint.toString().contains("wait=CREDIT")), endPoint::toString);
      assertTrue(written.get() <= 2_000_000, written + " bytes were written ahead");
    }
  }

  private static Frame next(Service service, int connection) throws InterruptedException {
    for (; ; ) {
      try (Message message = service.receive(LIMIT, TimeUnit.SECONDS)) {
        assertTrue(message != null, "an answer");
        if (message.tag() == connection) return Frame.decode(message.item(0));
      }
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
