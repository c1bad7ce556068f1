// SPDX-License-Identifier: Apache-2.0
package org.libripc.bench;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.libripc.MessageBatch;
import org.libripc.Outgoing;
import org.libripc.Ripc;
import org.libripc.Service;
import org.libripc.ServiceId;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** What a message costs without any waiting: sent and received by one thread. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(1)
public class Cost {
  private Path directory;
  private Ripc ripc;
  private Service client;
  private Service server;
  private ServiceId to;
  private Outgoing message;
  private ByteBuffer payload;
  private MessageBatch batch;

  /** Opens a context with two services. */
  @Setup
  public void open() throws Exception {
    directory = Files.createTempDirectory("ripc-bench-");
    ripc = Pair.open(directory);
    client = ripc.register();
    server = ripc.register();
    payload = ByteBuffer.allocateDirect(32);
    message = new Outgoing();
    to = server.id();
    batch = server.batch(16, 1 << 16);
  }

  /** Ends them. */
  @TearDown
  public void close() {
    ripc.close();
  }

  /** One message, sent and received. */
  @Benchmark
  public int sendAndReceive() throws InterruptedException {
    client.send(to, message.clear().add(payload));
    server.receive(batch, 1, TimeUnit.SECONDS);
    return batch.get(0).item(0).remaining();
  }
}
