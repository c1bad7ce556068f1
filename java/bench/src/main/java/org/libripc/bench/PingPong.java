// SPDX-License-Identifier: Apache-2.0
package org.libripc.bench;

import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import org.libripc.MessageBatch;
import org.libripc.Outgoing;
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
 * Round trip of a short message over shared memory with both sides spinning, to compare with `ripc
 * bench pingpong`.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(1)
public class PingPong {
  /** Bytes of payload. */
  @Param("64")
  int size;

  private Pair pair;
  private ByteBuffer payload;
  private Outgoing message;
  private MessageBatch batch;

  /** Starts the echo. */
  @Setup
  public void open() throws Exception {
    pair = new Pair("echo");
    Pair.pin(0);
    payload = Pair.payload(size);
    message = new Outgoing();
    batch = pair.client.batch(16, 1 << 16);
  }

  /** Ends it. */
  @TearDown
  public void close() throws Exception {
    pair.close();
  }

  /** There and back. */
  @Benchmark
  public int roundTrip() throws InterruptedException {
    pair.client.send(pair.far, message.clear().add(payload));
    while (pair.client.receive(batch, 1, TimeUnit.SECONDS) == 0) {}
    if (!payload.equals(batch.get(0).item(0)))
      throw new IllegalStateException("another payload came back");
    return batch.size();
  }
}
