// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.libripc.jetty.Handlers.ok;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.io.EndPoint;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.component.LifeCycle;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.ItemKind;
import org.libripc.Message;
import org.libripc.Outgoing;
import org.libripc.Ripc;
import org.libripc.Service;
import org.libripc.ServiceId;
import org.libripc.stream.StreamOptions;

/** Clients that speak the stream's format by hand, and not always correctly. */
@Tag("jna")
@ParameterizedClass(name = "{0}")
@ValueSource(strings = {"shm", "socket"})
class RoughClientTest extends HttpPairTest {
  private static RawFrame next(Service service, int connection) throws InterruptedException {
    for (; ; ) {
      try (Message message = service.receive(LIMIT, TimeUnit.SECONDS)) {
        assertTrue(message != null, "an answer");
        RawFrame frame = RawFrame.decode(message.item(0));
        // It gives back what it gets, and is asked whether it is still there.
        boolean isProbe = frame.type() == RawFrame.Type.CREDIT;
        if (message.tag() == connection && !isProbe) return frame;
      }
    }
  }

  private void data(Service sender, int sequence, ByteBuffer bytes) throws Exception {
    RawFrame data = new RawFrame(RawFrame.Type.DATA, 0, RawFrame.Reason.NONE, sequence, 0, 0);
    Outgoing message = new Outgoing().tag(1).add(data.encode(), ItemKind.SHORT);
    sender.send(
        ServiceId.ofName(SERVICE), message.add(bytes, ItemKind.LONG), LIMIT, TimeUnit.SECONDS);
  }

  // Leaves what a client of this name would leave behind if it was killed.
  private void leaveConnection(String name) throws Exception {
    try (Ripc other = context();
        Service killed = other.service().name(name).register()) {
      killed.lending(true);
      RawFrame open =
          new RawFrame(RawFrame.Type.OPEN, RawFrame.FILLER, RawFrame.Reason.NONE, 0, 0, 4096);
      killed.send(
          ServiceId.ofName(SERVICE), new Outgoing().tag(1).add(open.encode(), ItemKind.SHORT));
      assertEquals(RawFrame.Type.ACCEPT, next(killed, 1).type());
    }
  }

  @Test
  void protocolErrorsAreToldAndEndTheConnection() throws Exception {
    startServer(ok(), ignored -> {});
    clientContext = context();
    ServiceId to = ServiceId.ofName(SERVICE);
    try (Service rough = clientContext.register()) {
      rough.lending(true);
      byte[][] nonsense = {{}, new byte[20], new byte[5000], {1, 9, 0, 0}};
      for (byte[] each : nonsense) {
        rough.send(to, new Outgoing().tag(7).add(ByteBuffer.wrap(each), ItemKind.LONG));
        rough.send(to, new Outgoing().tag(7));
      }
      // A message of a connection that does not exist.
      RawFrame data = new RawFrame(RawFrame.Type.DATA, 0, RawFrame.Reason.NONE, 0, 0, 0);
      rough.send(to, new Outgoing().tag(8).add(data.encode(), ItemKind.SHORT));
      assertEquals(RawFrame.Reason.UNKNOWN, next(rough, 8).reason());
      // A connection that is opened, and then has a message from far ahead.
      RawFrame open =
          new RawFrame(RawFrame.Type.OPEN, RawFrame.FILLER, RawFrame.Reason.NONE, 0, 0, 4096);
      rough.send(to, new Outgoing().tag(9).add(open.encode(), ItemKind.SHORT));
      assertEquals(RawFrame.Type.ACCEPT, next(rough, 9).type());
      assertEquals(1, connector.getConnectedEndPoints().size());
      RawFrame ahead = new RawFrame(RawFrame.Type.DATA, 0, RawFrame.Reason.NONE, 1 << 30, 0, 0);
      rough.send(to, new Outgoing().tag(9).add(ahead.encode(), ItemKind.SHORT));
      assertEquals(RawFrame.Reason.PROTOCOL, next(rough, 9).reason());
      assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()));
      // A connection that says it has read what was never sent.
      rough.send(to, new Outgoing().tag(10).add(open.encode(), ItemKind.SHORT));
      assertEquals(RawFrame.Type.ACCEPT, next(rough, 10).type());
      RawFrame greedy = new RawFrame(RawFrame.Type.CREDIT, 0, RawFrame.Reason.NONE, 0, 1L << 40, 0);
      rough.send(to, new Outgoing().tag(10).add(greedy.encode(), ItemKind.SHORT));
      assertEquals(RawFrame.Reason.PROTOCOL, next(rough, 10).reason());
      // A connection that accepts its own request.
      rough.send(to, new Outgoing().tag(11).add(open.encode(), ItemKind.SHORT));
      assertEquals(RawFrame.Type.ACCEPT, next(rough, 11).type());
      RawFrame accept =
          new RawFrame(RawFrame.Type.ACCEPT, RawFrame.FILLER, RawFrame.Reason.NONE, 0, 0, 4096);
      rough.send(to, new Outgoing().tag(11).add(accept.encode(), ItemKind.SHORT));
      assertEquals(RawFrame.Reason.PROTOCOL, next(rough, 11).reason());
    }
    try (RawConnection good = raw()) {
      good.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      assertTrue(good.readUntil("\r\n\r\n").startsWith("HTTP/1.1 200"));
    }
  }

  @Test
  void creditForAnUnknownConnectionIsAnsweredUnknown() throws Exception {
    startServer(ok(), ignored -> {});
    clientContext = context();
    try (Service rough = clientContext.register()) {
      rough.lending(true);
      RawFrame probe =
          new RawFrame(RawFrame.Type.CREDIT, RawFrame.FILLER, RawFrame.Reason.NONE, 0, 0, 0);
      rough.send(
          ServiceId.ofName(SERVICE), new Outgoing().tag(5).add(probe.encode(), ItemKind.SHORT));
      assertEquals(RawFrame.Reason.UNKNOWN, next(rough, 5).reason());
    }
  }

  /** What a client does with its messages while the server stops. */
  private interface Client {
    void take(Service service) throws Exception;
  }

  // As if the client's receiving thread had stopped the server, or a debugger held the process.
  private void stopWithAClientThatTakesNothing(String request) throws Exception {
    stop(request, stuck -> {});
  }

  private void stop(String request, Client client) throws Exception {
    AtomicLong answers = new AtomicLong();
    Callback written = Callback.from(answers::incrementAndGet);
    startServer(
        Handlers.handler(
            (ignored, response, callback) ->
                response.write(
                    true, ByteBuffer.wrap(pattern(100_000, 1)), Callback.from(callback, written))),
        changed ->
            ((RipcConnector) changed)
                .setOptions(StreamOptions.DEFAULT.withLingerMillis(TimeUnit.HOURS.toMillis(1))));
    clientContext = context();
    try (Service stuck = clientContext.register()) {
      stuck.lending(true);
      RawFrame open =
          new RawFrame(RawFrame.Type.OPEN, RawFrame.FILLER, RawFrame.Reason.NONE, 0, 0, 1 << 20);
      stuck.send(
          ServiceId.ofName(SERVICE), new Outgoing().tag(1).add(open.encode(), ItemKind.SHORT));
      assertEquals(RawFrame.Type.ACCEPT, next(stuck, 1).type());
      if (!request.isEmpty()) {
        data(stuck, 0, ByteBuffer.wrap(request.getBytes(StandardCharsets.US_ASCII)));
        assertTrue(eventually(() -> answers.get() == 1), "the answer is written");
      }
      CompletableFuture<Void> stopped = CompletableFuture.runAsync(() -> LifeCycle.stop(server));
      client.take(stuck);
      stopped.get(LIMIT, TimeUnit.SECONDS);
    }
  }

  // The memory of what was written goes with the server.
  @Test
  void aStopWaitsForAClientThatTakesItsAnswerOnlyThen() throws Exception {
    stop(
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        late -> {
          assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()), "it stops");
          ByteArrayOutputStream answer = new ByteArrayOutputStream();
          for (RawFrame.Type last = null; last != RawFrame.Type.CLOSE; ) {
            try (Message message = late.receive(LIMIT, TimeUnit.SECONDS)) {
              last = RawFrame.decode(message.item(0)).type();
              for (int item = 1; last == RawFrame.Type.DATA && item < message.itemCount(); ++item) {
                byte[] bytes = new byte[(int) message.size(item)];
                message.copyTo(item, 0, ByteBuffer.wrap(bytes));
                answer.write(bytes);
              }
            }
          }
          byte[] whole = answer.toByteArray();
          int length = whole.length;
          assertArrayEquals(
              pattern(100_000, 1),
              Arrays.copyOfRange(whole, Math.max(0, length - 100_000), length));
        });
  }

  @Test
  void aStopWaitsForNobodyToTakeTheClose() throws Exception {
    stopWithAClientThatTakesNothing("");
  }

  @Test
  void aStopWaitsForNobodyWhoTakesNoAnswer() throws Exception {
    stopWithAClientThatTakesNothing("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  }

  @Test
  void aClientThatComesBackUnderItsNameConnectsBesideWhatItLeft() throws Exception {
    startServer(ok(), ignored -> {});
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
  void unreadMessagesOfOneConnectionDoNotStarveOthers() throws Exception {
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
      RawFrame open =
          new RawFrame(RawFrame.Type.OPEN, RawFrame.FILLER, RawFrame.Reason.NONE, 0, 0, 1 << 20);
      sender.send(to, new Outgoing().tag(1).add(open.encode(), ItemKind.SHORT));
      assertEquals(RawFrame.Type.ACCEPT, next(sender, 1).type());
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
      RawFrame open =
          new RawFrame(
              RawFrame.Type.OPEN, RawFrame.FILLER, RawFrame.Reason.NONE, 0, 0, Integer.MAX_VALUE);
      greedy.send(to, new Outgoing().tag(1).add(open.encode(), ItemKind.SHORT));
      assertEquals(RawFrame.Type.ACCEPT, next(greedy, 1).type());
      RawFrame data = new RawFrame(RawFrame.Type.DATA, 0, RawFrame.Reason.NONE, 0, 0, 0);
      ByteBuffer request = StandardCharsets.US_ASCII.encode("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      greedy.send(
          to, new Outgoing().tag(1).add(data.encode(), ItemKind.SHORT).add(request, ItemKind.LONG));
      EndPoint endPoint = serverEndPoint();
      assertTrue(eventually(() -> endPoint.toString().contains("wait=CREDIT")), endPoint::toString);
      assertTrue(written.get() <= 2_000_000, written + " bytes were written ahead");
    }
  }

  @Test
  void aClientThatEndsWithoutAWordIsForgottenAtOnce() throws Exception {
    startServer(ok(), changed -> changed.setIdleTimeout(600_000)); // it is not what ends them
    clientContext = context();
    RawFrame open =
        new RawFrame(RawFrame.Type.OPEN, RawFrame.FILLER, RawFrame.Reason.NONE, 0, 0, 4096);
    for (boolean withContext : new boolean[] {false, true}) {
      Service mute = clientContext.register();
      mute.lending(true);
      mute.send(
          ServiceId.ofName(SERVICE), new Outgoing().tag(1).add(open.encode(), ItemKind.SHORT));
      try (Message life = mute.receive(LIMIT, TimeUnit.SECONDS)) {
        assertEquals(RawFrame.Type.ACCEPT, RawFrame.decode(life.item(0)).type());
        assertTrue(eventually(() -> connector.getConnectedEndPoints().size() == 1));
        if (withContext) {
          clientContext.close();
        } else {
          mute.close();
        }
        assertTrue(eventually(() -> connector.getConnectedEndPoints().isEmpty()), "held: " + life);
      }
    }
  }
}
