// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Iterator;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.hadoop.mapred.JobConf;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.Ripc;
import org.libripc.RipcException;
import org.libripc.ServiceInfo;
import org.libripc.Status;
import org.libripc.Ticket;
import org.libripc.rpc.Request;
import org.libripc.rpc.Rpc;

/** A service with the name of a NodeManager, but without the job's token, gives no output. */
@Timeout(60)
class AnswerTest {
  /** What is wrong with an answer. */
  private enum Lie {
    NONE,
    CODE,
    NO_SESSION,
    CONTENT,
    LENGTH,
    MAC,
    MAC_OF_ANOTHER_REQUEST,
    MAC_OF_ANOTHER_LENGTH,
    NO_MAC,
    ONE_ITEM_MORE,
    RUBBISH
  }

  private static final byte[] BYTES = new byte[1000];

  private final String name = "test-" + ProcessHandle.current().pid() + "-" + System.nanoTime();
  private final Random random = new Random(1);
  private final ServerFixture.Taken taken = new ServerFixture.Taken();
  private Ripc ripc;
  private RemoteShuffle shuffle;
  private volatile int method; // at which the service lies
  private volatile Lie lie = Lie.NONE;
  private final Queue<Consumer<Request>> before =
      new ConcurrentLinkedQueue<>(); // its answers there
  private volatile CompletableFuture<Ticket> lent; // gets the ticket of lent bytes; null: none are

  @BeforeEach
  void begin() {
    ripc = Ripc.builder().open();
    Rpc rpc = Rpc.open(ripc.service().name(Wire.serviceName(name)).register());
    ByteBuffer session = ByteBuffer.allocate(Wire.SESSION_BYTES);
    ByteBuffer sizes = Wire.encodeSizes(List.of(new Wire.Size(BYTES.length, BYTES.length, 0)));
    rpc.on(Wire.BEGIN, request -> answer(request, Wire.BEGIN, session, null))
        .on(Wire.SIZES, request -> answer(request, Wire.SIZES, sizes, null))
        .on(Wire.DATA, request -> answer(request, Wire.DATA, Wire.lengthOf(BYTES.length), BYTES));
    Thread thread = new Thread(() -> serve(rpc));
    thread.setDaemon(true);
    thread.start();
    open("always");
  }

  private void open(String dataMac) {
    if (shuffle != null) shuffle.close();
    JobConf conf = new JobConf(false);
    conf.set(Keys.DATA_MAC, dataMac);
    shuffle = new RemoteShuffle(conf, ServerFixture.JOB, ServerFixture.KEY);
  }

  private static void serve(Rpc rpc) {
    try {
      rpc.serve();
    } catch (InterruptedException | RipcException.Closed end) {
      // the context was closed
    }
  }

  @AfterEach
  void end() {
    shuffle.close();
    ripc.close();
  }

  /**
   * @param says what the MAC is over
   * @param data what is sent in its place; null: {@code says} itself
   */
  private void answer(Request request, int to, ByteBuffer says, byte[] data) {
    Consumer<Request> other = to == method ? before.poll() : null;
    if (other != null) {
      other.accept(request);
      return;
    }
    if (to == Wire.DATA && lent != null) {
      try (RegisteredBuffer memory = ripc.lease(1 << 20)) {
        lent.complete(request.reply(new Outgoing().borrow(memory)));
      }
      return;
    }
    try {
      byte[] mac = Wire.macOf(request.item(0));
      Lie now = to == method ? lie : Lie.NONE;
      byte[] content = (data != null ? data : says.array()).clone();
      boolean isSealed = to == Wire.DATA && Wire.decodeData(request.item(0)).isSealed();
      if (now == Lie.MAC_OF_ANOTHER_REQUEST) mac[0] ^= 1;
      ByteBuffer sealed = now == Lie.MAC_OF_ANOTHER_LENGTH ? Wire.lengthOf(1) : says;
      byte[] seal =
          isSealed
              ? Wire.sealAnswer(ServerFixture.KEY, mac, sealed, ByteBuffer.wrap(data))
              : Wire.sealAnswer(ServerFixture.KEY, mac, sealed);
      if (now == Lie.MAC) seal[random.nextInt(seal.length)] ^= 1;
      if (now == Lie.CONTENT) content[random.nextInt(content.length)] ^= 1;
      if (now == Lie.LENGTH) content = new byte[content.length + 1];
      if (now == Lie.RUBBISH) random.nextBytes(content = new byte[random.nextInt(2000)]);
      if (now == Lie.RUBBISH) random.nextBytes(seal = new byte[random.nextInt(100)]);
      Outgoing items = new Outgoing().add(ByteBuffer.wrap(content));
      if (now != Lie.NO_MAC) items.add(ByteBuffer.wrap(seal));
      if (now == Lie.ONE_ITEM_MORE) items.add(ByteBuffer.wrap(seal));
      int code = now == Lie.CODE ? 1 + random.nextInt(100) : Wire.OK;
      request.reply(now == Lie.NO_SESSION ? Wire.NO_SESSION : code, items);
    } catch (IOException tooShort) {
      throw new AssertionError(tooShort);
    }
  }

  private void fetch() throws Exception {
    // A new host, which does not know the session.
    RemoteHost host = new RemoteHost(shuffle, Wire.serviceName(name));
    new RemoteFetch<>(shuffle, host, 0, taken).fetch(List.of(MapFiles.attempt(0)));
  }

  @Test
  void aTrueAnswerIsBelieved() throws Exception {
    fetch();
    assertArrayEquals(BYTES, taken.came.get(MapFiles.attempt(0)));
  }

  /** Their checksum is checked later. */
  @Test
  void changedBytesComeIfTheyAreNotUnderTheMac() throws Exception {
    open("never");
    method = Wire.DATA;
    lie = Lie.CONTENT;
    fetch();
    assertFalse(Arrays.equals(BYTES, taken.came.get(MapFiles.attempt(0))));
  }

  @Test
  void nobodyWaitsForAnswersThatNothingReceives() throws Exception {
    fetch();
    shuffle.rpc().service().interrupt(); // ends the thread that receives
    ShuffleFailure failure =
        assertThrows(
            ShuffleFailure.class,
            () -> {
              while (true) fetch();
            });
    assertEquals(Fallback.FAILED, failure.why());
  }

  @Test
  void lentBytesThatNobodyReadsAreGivenBack() throws Exception {
    lent = new CompletableFuture<>();
    RemoteHost host = new RemoteHost(shuffle, Wire.serviceName(name));
    PieceStream.Wanted wanted =
        new PieceStream.Wanted(MapFiles.attempt(0).toString(), BYTES.length, 0);
    Iterator<PieceStream.Wanted> source = Arrays.asList(wanted, null).iterator();
    try (PieceStream pieces = new PieceStream(shuffle, host, 0, source::next)) {
      pieces.ask();
      // The first answer is that of the session.
      while (shuffle.rpc().statistics().answered() < 2) Thread.onSpinWait();
    }
    lent.join().get(20, TimeUnit.SECONDS);
  }

  /** The NodeManager has started again, and the way to it may be another one. */
  @Test
  void aHostWithoutTheSessionIsLookedForAgain() throws Exception {
    RemoteHost host = new RemoteHost(shuffle, Wire.serviceName(name));
    ServiceInfo before = host.way();
    assertSame(before, host.way());
    method = Wire.SIZES;
    lie = Lie.NO_SESSION;
    assertThrows(ShuffleFailure.class, () -> host.sizes(0, List.of("")));
    assertNotSame(before, host.way());
  }

  /** The connection may have been lost meanwhile, and another way may have replaced it. */
  @Test
  void eachVisitLooksAtTheWay() throws Exception {
    RemoteHost host = new RemoteHost(shuffle, Wire.serviceName(name));
    ServiceInfo before = host.visit();
    assertSame(before, host.way());
    assertNotSame(before, host.visit());
  }

  @ParameterizedTest
  @ValueSource(ints = {Wire.SIZES, Wire.DATA})
  void aHostThatWasBusyMayHaveLostTheSession(int at) throws Exception {
    method = at;
    before.add(request -> request.refuse(Status.AGAIN));
    before.add(request -> request.reply(Wire.NO_SESSION, new Outgoing()));
    fetch();
    assertArrayEquals(BYTES, taken.came.get(MapFiles.attempt(0)));
  }

  /** A piece is of one directory, and these outputs need none. */
  @Test
  void emptyOutputsOfManyDirectoriesDoNotEndTheStream() throws Exception {
    String attempt = MapFiles.attempt(0).toString();
    List<PieceStream.Wanted> wanted = new ArrayList<>();
    for (int directory = 0; directory < 3; ++directory)
      wanted.add(new PieceStream.Wanted(attempt, 0, directory));
    wanted.add(new PieceStream.Wanted(attempt, BYTES.length, 3));
    wanted.add(null);
    RemoteHost host = new RemoteHost(shuffle, Wire.serviceName(name));
    try (PieceStream pieces = new PieceStream(shuffle, host, 0, wanted.iterator()::next)) {
      pieces.ask();
      assertArrayEquals(BYTES, pieces.readAllBytes());
    }
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "NONE")
  void aFalseAnswerGivesNothing(Lie told) throws Exception {
    lie = told;
    Set<Fallback> reasons = EnumSet.of(Fallback.REFUSED, Fallback.FAILED);
    for (int at : List.of(Wire.BEGIN, Wire.SIZES, Wire.DATA)) {
      for (int round = 0; round < 30; ++round) {
        method = at;
        ShuffleFailure failure = assertThrows(ShuffleFailure.class, this::fetch, "method " + at);
        assertTrue(reasons.contains(failure.why()), failure.toString());
      }
    }
    assertEquals(0, taken.came.size());
    // A true answer is believed afterwards.
    lie = Lie.NONE;
    aTrueAnswerIsBelieved();
  }
}
