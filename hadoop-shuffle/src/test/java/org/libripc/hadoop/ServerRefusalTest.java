// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.ReturnBuffer;
import org.libripc.Status;
import org.libripc.rpc.CallOutcome;
import org.libripc.rpc.CallResult;
import org.libripc.rpc.RpcCall;

/** What a NodeManager refuses or puts off, and that it goes on afterwards. */
class ServerRefusalTest extends ServerFixture {
  @Test
  void aRefusedReducerAsksAgainUntilItsTimeIsOver() throws Exception {
    serveAgain(1, 1 << 24);
    for (int map = 0; map < 4; ++map) write(map, 20, 40);
    CountDownLatch gate = new CountDownLatch(1);
    beforeFinding =
        () -> {
          try {
            gate.await();
          } catch (InterruptedException closing) {
            Thread.currentThread().interrupt();
          }
        };
    RemoteHost host = shuffle.host(name);
    List<RpcCall> calls = new ArrayList<>();
    for (int map = 0; map < 3; ++map) { // two run, one waits
      Wire.Sizes sizes =
          new Wire.Sizes(host.head(REDUCE), List.of(MapFiles.attempt(map).toString()));
      calls.add(host.call(Wire.SIZES, Wire.encode(sizes, KEY), new Outgoing()));
    }
    Thread opens =
        new Thread(
            () -> {
              await(() -> value(metrics.busy) > 200); // for some seconds
              gate.countDown();
            });
    opens.start();
    assertFalse(fetch(3));
    checkCame(3);
    opens.join();
    for (RpcCall call : calls) {
      try (CallResult result = RemoteHost.await(call)) {
        assertEquals(Wire.OK, result.code());
      }
    }
  }

  @Test
  void aServerThatNoLongerReceivesEndsItsService() throws Exception {
    write(0, 20, 40);
    fetch(0);
    server.service.interrupt(); // ends the thread that receives
    await(server.service::isClosed);
    assertThrows(ShuffleFailure.class, () -> fetch(0));
  }

  @Test
  void piecesUnderWayAreBoundedAndEnd() throws Exception {
    serveAgain(256, 64 << 10);
    write(0, 2000, 1000);
    RemoteHost host = shuffle.host(name);
    Wire.Range range = new Wire.Range(MapFiles.attempt(0).toString(), 0, (64 << 10) + 1);
    ByteBuffer request = Wire.encode(new Wire.Data(host.head(REDUCE), false, List.of(range)), KEY);
    try (RegisteredBuffer memory = shuffle.ripc().lease(range.length())) {
      Outgoing room = new Outgoing().attach(new ReturnBuffer(memory));
      try (CallResult result = RemoteHost.await(host.call(Wire.DATA, request, room))) {
        assertEquals(CallOutcome.DID_NOT_RUN, result.outcome());
        assertEquals(Status.AGAIN, result.status());
      }
    }
    assertEquals(1, value(metrics.busy));
    // One piece at a time is under way, each in the room that the one before gives back.
    maps.conf.setInt(Keys.PIECE_BYTES, 64 << 10);
    shuffle.close();
    shuffle = new RemoteShuffle(maps.conf, JOB, KEY);
    fetch(0);
    checkCame(0);
  }

  /** Their room is given back as well. */
  @Test
  void requestsThatCannotBeServedTakeNoRoom() throws Exception {
    serveAgain(256, 64 << 10);
    write(0, 2000, 1000);
    shuffle.host(name).sizes(REDUCE, List.of(MapFiles.attempt(0).toString()));
    byte[] bytes = Files.readAllBytes(maps.data(0));
    Files.write(maps.data(0), new byte[10]);
    maps.conf.setInt(Keys.PIECE_BYTES, 64 << 10);
    shuffle.close();
    shuffle = new RemoteShuffle(maps.conf, JOB, KEY);
    for (int time = 0; time < 3; ++time) assertThrows(ShuffleFailure.class, () -> fetch(0));
    Files.write(maps.data(0), bytes);
    fetch(0);
    checkCame(0);
  }

  @Test
  void aWrongTokenIsRefusedAndCounted() throws Exception {
    write(0, 20, 40);
    shuffle.close();
    shuffle = new RemoteShuffle(maps.conf, JOB, WRONG);
    ShuffleFailure failure = assertThrows(ShuffleFailure.class, () -> fetch(0));
    assertEquals(Fallback.REFUSED, failure.why());
    assertEquals(1, value(metrics.refused));
    assertEquals(0, value(metrics.bytes));
  }

  @Test
  void aReplayedRequestIsRefusedAndCounted() throws Exception {
    write(0, 20, 40);
    RemoteHost host = shuffle.host(name);
    Wire.Sizes sizes = new Wire.Sizes(host.head(REDUCE), List.of(MapFiles.attempt(0).toString()));
    ByteBuffer request = Wire.encode(sizes, KEY);
    for (int time = 0; time < 3; ++time) {
      try (CallResult result = RemoteHost.await(host.call(Wire.SIZES, request, new Outgoing()))) {
        assertEquals(time == 0 ? Wire.OK : Wire.NO_SESSION, result.code());
      }
    }
    assertEquals(2, value(metrics.replayed));
    assertEquals(1, value(metrics.sizeRequests));
  }

  @Test
  void aReplayedBeginIsRefusedAndCounted() throws Exception {
    RemoteHost host = shuffle.host(name);
    ByteBuffer request = Wire.encode(new Wire.Begin(JOB, new byte[Wire.NONCE_BYTES]), KEY);
    for (int time = 0; time < 3; ++time) {
      try (CallResult result = RemoteHost.await(host.call(Wire.BEGIN, request, new Outgoing()))) {
        assertEquals(time == 0 ? Wire.OK : Wire.NO_SESSION, result.code());
      }
    }
    assertEquals(2, value(metrics.replayed));
    assertEquals(1, value(metrics.sessions));
  }

  @Test
  void anotherJobsOutputIsRefused() throws Exception {
    write(0, 20, 40);
    RemoteHost host = shuffle.host(name);
    Wire.Sizes sizes =
        new Wire.Sizes(host.head(REDUCE), List.of("attempt_1700000000000_0002_m_000000_0"));
    try (CallResult result =
        RemoteHost.await(host.call(Wire.SIZES, Wire.encode(sizes, KEY), new Outgoing()))) {
      assertEquals(Wire.REFUSED, result.code());
    }
  }

  @Test
  void anEndedJobIsRefused() throws Exception {
    write(0, 20, 40);
    fetch(0);
    keys.clear();
    server.endJob(JOB);
    ShuffleFailure failure = assertThrows(ShuffleFailure.class, () -> fetch(0));
    assertEquals(Fallback.REFUSED, failure.why());
  }

  @Test
  void aRestartedNodeManagerIsAskedAgain() throws Exception {
    write(0, 20, 40);
    fetch(0);
    serveAgain(256, 1 << 24);
    taken.came.clear();
    fetch(0);
    checkCame(0);
  }

  @Test
  void withoutAServiceAnotherWayIsTaken() {
    RemoteHost host = shuffle.host("nowhere:1");
    ShuffleFailure failure = assertThrows(ShuffleFailure.class, host::way);
    assertEquals(Fallback.NO_SERVICE, failure.why());
    host.avoid(failure);
    // The host is not asked again for a while, which is why this does not wait.
    assertEquals(Fallback.NO_SERVICE, assertThrows(ShuffleFailure.class, host::way).why());
  }

  /** The server goes on after any request. */
  @Test
  void rubbishIsRefused() throws Exception {
    write(0, 20, 40);
    RemoteHost host = shuffle.host(name);
    Random random = new Random(1);
    ByteBuffer good =
        Wire.encode(
            new Wire.Sizes(host.head(REDUCE), List.of(MapFiles.attempt(0).toString())), KEY);
    for (int round = 0; round < 2000; ++round) {
      byte[] bytes =
          random.nextBoolean() ? good.array().clone() : new byte[random.nextInt(100_000)];
      if (bytes.length > 0) bytes[random.nextInt(bytes.length)] += 1;
      int method = 1 + random.nextInt(3);
      try (CallResult result =
          RemoteHost.await(host.call(method, ByteBuffer.wrap(bytes), new Outgoing()))) {
        assertTrue(result.isAnswered());
        assertTrue(result.code() == Wire.REFUSED || result.code() == Wire.NO_SESSION);
      }
    }
    fetch(0);
    checkCame(0);
  }
}
