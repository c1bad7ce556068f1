// SPDX-License-Identifier: Apache-2.0
package org.libripc.bench;

import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.libripc.Outgoing;
import org.libripc.rpc.CallHandler;
import org.libripc.rpc.CallResult;
import org.libripc.rpc.Rpc;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * A call over shared memory with both sides spinning, to compare with `ripc bench calls --window
 * 1`. With `-prof gc` it shows what each form of call allocates.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(1)
public class Calls implements CallHandler {
  static final int ECHO = 1;

  /** Bytes of payload. */
  @Param("32")
  int size;

  private Pair pair;
  private Rpc rpc;
  private ByteBuffer payload;
  private Outgoing arguments;
  private boolean ended;

  /** Starts the server. */
  @Setup
  public void open() throws Exception {
    pair = new Pair("calls");
    Pair.pin(0);
    rpc = Rpc.open(pair.client);
    payload = Pair.payload(size);
    arguments = new Outgoing();
  }

  /** Ends it. */
  @TearDown
  public void close() throws Exception {
    rpc.close();
    pair.close();
  }

  @Override
  public void ended(CallResult result) {
    if (!payload.equals(result.item(0)))
      throw new IllegalStateException("another payload came back");
    ended = true;
  }

  /** With a handler. */
  @Benchmark
  public void callThen() throws InterruptedException {
    ended = false;
    rpc.callThen(pair.far, ECHO, arguments.clear().add(payload), this);
    while (!ended) rpc.run(1, TimeUnit.SECONDS);
  }

  /** With a future. */
  @Benchmark
  public void call() throws InterruptedException {
    CompletableFuture<CallResult> future = rpc.call(pair.far, ECHO, arguments.clear().add(payload));
    while (!future.isDone()) rpc.run(1, TimeUnit.SECONDS);
    try (CallResult result = future.join()) {
      ended(result);
    }
  }

  /** Waits for the answer. */
  @Benchmark
  public void callWait() throws InterruptedException {
    try (CallResult result = rpc.callWait(pair.far, ECHO, arguments.clear().add(payload))) {
      ended(result);
    }
  }
}
