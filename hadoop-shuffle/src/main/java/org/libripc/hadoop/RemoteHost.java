// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.libripc.Outgoing;
import org.libripc.RipcException;
import org.libripc.ServiceId;
import org.libripc.ServiceInfo;
import org.libripc.Status;
import org.libripc.rpc.CallOutcome;
import org.libripc.rpc.CallResult;
import org.libripc.rpc.RpcCall;

/**
 * One NodeManager, as a reducer sees it: the way there, the session, and until when the reducer
 * avoids it. One fetcher at a time, because Hadoop's scheduler gives a host to one.
 */
final class RemoteHost {
  private static final long PAUSE = 20; // ms, between two refusals

  /** Why a request was sent again. */
  static final class Repeats {
    private Long refusedSince; // ms
    private boolean hasNewSession;
  }

  private final RemoteShuffle shuffle;
  private final String name;
  private ServiceId id;
  private ServiceInfo way;
  private byte[] session;
  private long number;
  private long avoidedUntil;
  private String avoidedFor = "";
  private Fallback avoidedBy = Fallback.NO_SERVICE;

  RemoteHost(RemoteShuffle shuffle, String name) {
    this.shuffle = shuffle;
    this.name = name;
  }

  private static long now() {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
  }

  private ServiceId id() throws IOException {
    if (id == null) {
      shuffle.ripc(); // throws the reason if the native library does not load
      id = ServiceId.ofName(name);
    }
    return id;
  }

  /** After a failure, makes the next tries go another way for a while. */
  void avoid(ShuffleFailure failure) {
    session = null;
    way = null;
    avoidedUntil = now() + shuffle.retryMillis();
    avoidedFor = failure.getMessage();
    avoidedBy = failure.why();
  }

  /**
   * The way there at the beginning of a visit: a lost connection may be replaced by another way.
   */
  ServiceInfo visit() throws ShuffleFailure {
    way = null;
    return way();
  }

  /** The way there. Looks for it if it is not known. */
  ServiceInfo way() throws ShuffleFailure {
    if (avoidedUntil != 0) {
      if (now() < avoidedUntil) throw new ShuffleFailure(avoidedBy, avoidedFor);
      avoidedUntil = 0;
    }
    if (way == null) {
      try {
        way = shuffle.ripc().findPath(id());
      } catch (RipcException | IOException | IllegalStateException problem) {
        throw new ShuffleFailure(Fallback.NO_SERVICE, problem.getMessage());
      }
    }
    return way;
  }

  /** Whether the MAC of an answer has to cover the bytes of outputs. */
  boolean sealsBytes() throws ShuffleFailure {
    return shuffle.seal().covers(ShufflePath.of(way().transport()));
  }

  /** What the next request begins with. */
  Wire.Head head(int reduce) throws IOException, InterruptedException {
    if (session == null) begin();
    return new Wire.Head(session, ++number, reduce);
  }

  private void begin() throws IOException, InterruptedException {
    Wire.Begin begin = new Wire.Begin(shuffle.job(), shuffle.nonce());
    ByteBuffer request = Wire.encode(begin, shuffle.key());
    try (CallResult result = await(call(Wire.BEGIN, request, new Outgoing()))) {
      check(result);
      ByteBuffer answer = authentic(request, result);
      if (answer.remaining() != Wire.SESSION_BYTES)
        throw new ShuffleFailure(Fallback.FAILED, "an answer has a wrong length");
      session = new byte[Wire.SESSION_BYTES];
      answer.get(session);
      number = 0;
    }
  }

  /** Asks for the sizes of outputs, in the order of the attempts. */
  List<Wire.Size> sizes(int reduce, List<String> attempts)
      throws IOException, InterruptedException {
    Repeats repeats = new Repeats();
    while (true) {
      Wire.Sizes wanted = new Wire.Sizes(head(reduce), attempts);
      ByteBuffer request = Wire.encode(wanted, shuffle.key());
      try (CallResult result = await(call(Wire.SIZES, request, new Outgoing()))) {
        if (isToRepeat(result, repeats)) continue;
        check(result);
        return Wire.decodeSizes(authentic(request, result), attempts.size());
      }
    }
  }

  /** Begins a call; the request becomes its only argument. */
  RpcCall call(int method, ByteBuffer request, Outgoing arguments) throws IOException {
    try {
      return shuffle
          .rpc()
          .call(id(), method, arguments.add(request.duplicate()), shuffle.options());
    } catch (RipcException | IllegalStateException problem) {
      throw new ShuffleFailure(Fallback.FAILED, problem.toString());
    }
  }

  /** Waits for the end of a call, which comes at its deadline at the latest. */
  static CallResult await(RpcCall call) throws IOException, InterruptedException {
    try {
      return call.get();
    } catch (ExecutionException impossible) {
      throw new IOException(impossible);
    } catch (InterruptedException interrupted) {
      call.cancel(true);
      throw interrupted;
    }
  }

  /** Whether to repeat the request: too many requests wait there, or the session is gone. */
  boolean isToRepeat(CallResult result, Repeats repeats) throws InterruptedException {
    if (result.outcome() == CallOutcome.DID_NOT_RUN && result.status() == Status.AGAIN) {
      if (repeats.refusedSince == null) repeats.refusedSince = now();
      if (now() - repeats.refusedSince >= shuffle.timeoutMillis()) return false;
      Thread.sleep(PAUSE);
      return true;
    }
    if (result.isAnswered() && result.code() == Wire.NO_SESSION && !repeats.hasNewSession) {
      repeats.hasNewSession = true;
      session = null;
      way = null; // a new process may be reached another way
      return true;
    }
    return false;
  }

  /** Throws unless the result is an answer with what was asked for. */
  static void check(CallResult result) throws ShuffleFailure {
    if (!result.isAnswered()) {
      Fallback why = result.status() == Status.NO_SERVICE ? Fallback.NO_SERVICE : Fallback.FAILED;
      throw new ShuffleFailure(why, result.toString());
    }
    if (result.code() != Wire.OK)
      throw new ShuffleFailure(Fallback.REFUSED, "answer " + result.code());
  }

  /** The first item of an answer, checked against the MAC in its second item. */
  ByteBuffer authentic(ByteBuffer request, CallResult result) throws IOException {
    if (result.itemCount() != 2 || result.size(0) > Wire.LONGEST_REQUEST)
      throw new ShuffleFailure(Fallback.REFUSED, "an answer has a wrong size");
    ByteBuffer answer = result.item(0);
    check(request, result.item(1), answer);
    return answer;
  }

  void check(ByteBuffer request, ByteBuffer mac, ByteBuffer... answer) throws IOException {
    if (mac.remaining() != Wire.MAC_BYTES
        || !Wire.isAuthentic(shuffle.key(), Wire.macOf(request), mac, answer))
      throw new ShuffleFailure(Fallback.REFUSED, "an answer has a wrong MAC");
  }
}
