// SPDX-License-Identifier: Apache-2.0
package org.libripc.bench;

import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import org.libripc.Outgoing;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Short messages one way over shared memory, 64 with each send, every payload compared. To compare
 * with `ripc bench rate`.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.SECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(1)
public class Rate {
  private static final int BATCH = 64;
  static final int SIZE = 32;

  private Pair pair;
  private Outgoing[] messages;

  /** Starts the receiver. */
  @Setup
  public void open() throws Exception {
    pair = new Pair("sink");
    Pair.pin(0);
    ByteBuffer payload = Pair.payload(SIZE);
    messages = new Outgoing[BATCH];
    for (int index = 0; index < BATCH; ++index) messages[index] = new Outgoing().add(payload);
  }

  /** Ends it. */
  @TearDown
  public void close() throws Exception {
    pair.close();
  }

  /** 64 messages; each counts. */
  @Benchmark
  @OperationsPerInvocation(BATCH)
  public int send() {
    int sent = 0;
    while (sent < BATCH) {
      int now = pair.client.sendMany(pair.far, messages, BATCH - sent);
      if (now == 0) Thread.onSpinWait();
      sent += now;
    }
    return sent;
  }
}
