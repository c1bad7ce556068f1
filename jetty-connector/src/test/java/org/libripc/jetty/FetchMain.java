// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import java.util.zip.CRC32;
import org.eclipse.jetty.client.HttpClient;
import org.eclipse.jetty.client.Request;
import org.eclipse.jetty.client.Response;
import org.eclipse.jetty.client.Result;
import org.eclipse.jetty.io.ArrayByteBufferPool;
import org.libripc.Ripc;

/**
 * A client process: reads lines, fetches with Jetty's HttpClient what each line asks for, and
 * prints how long that took.
 *
 * <p>Argument: {@code tcp:PORT} or {@code ripc:NAME}; with {@code ripc-get:NAME} the waiting thread
 * does not receive ({@link RipcClient#await}). A line: the path, requests of each thread, threads,
 * bytes to expect, their CRC-32 as a decimal number or "any".
 */
final class FetchMain {
  private static final int MOST_THREADS = 64;
  private static final int BUFFER_BYTES = 256 << 10;
  private static final int LIMIT_SECONDS = 120;

  private final HttpClient client = new HttpClient();
  private final RipcClient services;
  private final String target;

  private FetchMain(String target, Ripc ripc) throws Exception {
    this.target = target;
    services = new RipcClient(ripc);
    if (!isTcp()) client.addBean(services);
    client.setMaxConnectionsPerDestination(MOST_THREADS);
    // Both transports get a pool that keeps buffers of this size.
    client.setResponseBufferSize(BUFFER_BYTES);
    client.setByteBufferPool(
        isTcp() ? new ArrayByteBufferPool(0, 4096, BUFFER_BYTES) : new RipcByteBufferPool(ripc));
    client.start();
  }

  private boolean isTcp() {
    return target.startsWith("tcp:");
  }

  private Request request(String path) {
    String rest = target.substring(target.indexOf(':') + 1);
    Request request = client.newRequest("http://127.0.0.1:" + (isTcp() ? rest : "80") + path);
    return isTcp() ? request : request.transport(services.transport(rest));
  }

  /** Fetches once and returns the time in nanoseconds. */
  private long fetch(String path, long size, String checksum) throws Exception {
    CRC32 sum = new CRC32();
    boolean check = !checksum.equals("any");
    AtomicLong bytes = new AtomicLong();
    CompletableFuture<Result> done = new CompletableFuture<>();
    long began = System.nanoTime();
    Response.ContentListener content =
        (Response response, ByteBuffer chunk) -> {
          bytes.addAndGet(chunk.remaining());
          if (check) sum.update(chunk.duplicate());
        };
    Supplier<CompletableFuture<Result>> sending =
        () -> {
          request(path).onResponseContent(content).send(done::complete);
          return done;
        };
    Result result =
        target.startsWith("ripc:")
            ? services.await(sending, LIMIT_SECONDS, TimeUnit.SECONDS)
            : sending.get().get(LIMIT_SECONDS, TimeUnit.SECONDS);
    long took = System.nanoTime() - began;
    if (result.isFailed()) throw new IllegalStateException(result.getFailure());
    if (bytes.get() != size || result.getResponse().getStatus() != 200) {
      throw new IllegalStateException(result.getResponse() + ", " + bytes + " bytes");
    }
    if (check && !Long.toString(sum.getValue()).equals(checksum)) {
      throw new IllegalStateException("the bytes are others");
    }
    return took;
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    try (Ripc ripc = Ripc.open()) {
      FetchMain main = new FetchMain(arguments[0], ripc);
      try {
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
          main.measure(line.split(" "));
        }
      } finally {
        main.client.stop();
      }
    }
  }

  private void measure(String[] words) throws Exception {
    String path = words[0];
    int requests = Integer.parseInt(words[1]);
    int threads = Integer.parseInt(words[2]);
    long size = Long.parseLong(words[3]);
    fetch(path, size, words[4]);
    System.out.println("ready");
    long[][] times = new long[threads][requests];
    CompletableFuture<?>[] all = new CompletableFuture<?>[threads];
    long cpu = cpuNanos();
    long began = System.nanoTime();
    for (int index = 0; index < threads; ++index) {
      long[] own = times[index];
      all[index] =
          CompletableFuture.runAsync(() -> run(path, size, own), task -> new Thread(task).start());
    }
    CompletableFuture.allOf(all).get();
    long took = System.nanoTime() - began;
    cpu = cpuNanos() - cpu;
    long[] sorted = Arrays.stream(times).flatMapToLong(Arrays::stream).sorted().toArray();
    System.out.printf(
        "{\"median_ns\": %d, \"p99_ns\": %d, \"requests\": %d, \"seconds\": %.6f, \"cpu_seconds\": %.6f}%n",
        sorted[sorted.length / 2],
        sorted[sorted.length * 99 / 100],
        sorted.length,
        took / 1e9,
        cpu / 1e9);
    fetch(path, size, words[4]);
  }

  private void run(String path, long size, long[] times) {
    try {
      for (int index = 0; index < times.length; ++index) times[index] = fetch(path, size, "any");
    } catch (Exception problem) {
      throw new IllegalStateException(problem);
    }
  }

  private static long cpuNanos() {
    return ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime();
  }
}
