// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32C;
import org.eclipse.jetty.client.HttpClient;
import org.eclipse.jetty.client.Request;
import org.eclipse.jetty.client.Response;
import org.eclipse.jetty.client.Result;
import org.libripc.Ripc;

/**
 * A client process: fetches one path again and again with Jetty's HttpClient, from so many threads,
 * one request at a time each, and prints what that took.
 *
 * <p>Arguments: {@code tcp:PORT} or {@code ripc:NAME}, the path, requests of each thread, threads,
 * bytes to expect, their CRC32C in hexadecimal. Says "ready" when connected; with "kill" as the
 * checksum it does not check, so that it is always fetching when it is killed.
 */
final class FetchMain {
  private final HttpClient client = new HttpClient();
  private final RipcClient services;
  private final String target;
  private final String path;
  private final long expected;
  private final String checksum;

  private FetchMain(String[] arguments, Ripc ripc) throws Exception {
    target = arguments[0];
    path = arguments[1];
    expected = Long.parseLong(arguments[4]);
    checksum = arguments[5];
    services = new RipcClient(ripc);
    if (!isTcp()) client.addBean(services);
    client.setMaxConnectionsPerDestination(Integer.parseInt(arguments[3]));
    client.setMaxRequestsQueuedPerDestination(100_000);
    int buffer = Integer.getInteger("buffer", 0);
    if (buffer > 0) client.setResponseBufferSize(buffer);
    client.start();
  }

  private boolean isTcp() {
    return target.startsWith("tcp:");
  }

  private Request request() {
    String rest = target.substring(target.indexOf(':') + 1);
    Request request =
        client.newRequest("http://127.0.0.1:" + (isTcp() ? rest : "80") + path);
    return isTcp() ? request : request.transport(services.transport(rest));
  }

  /** Fetches once; the time in nanoseconds. */
  private long fetch(boolean check) throws Exception {
    CRC32C sum = new CRC32C();
    AtomicLong bytes = new AtomicLong();
    CompletableFuture<Result> done = new CompletableFuture<>();
    long began = System.nanoTime();
    Response.ContentListener content =
        (Response response, ByteBuffer chunk) -> {
          bytes.addAndGet(chunk.remaining());
          if (check) sum.update(chunk.duplicate());
        };
    request().onResponseContent(content).send(done::complete);
    Result result = done.get(60, TimeUnit.SECONDS);
    long took = System.nanoTime() - began;
    if (result.isFailed()) throw new IllegalStateException(result.getFailure());
    if (bytes.get() != expected || result.getResponse().getStatus() != 200) {
      throw new IllegalStateException(result.getResponse() + ", " + bytes + " bytes");
    }
    if (check && !Long.toHexString(sum.getValue()).equals(checksum)) {
      throw new IllegalStateException("the bytes are others");
    }
    return took;
  }

  public static void main(String[] arguments) throws Exception {
    int requests = Integer.parseInt(arguments[2]);
    int threads = Integer.parseInt(arguments[3]);
    try (Ripc ripc = Ripc.open()) {
      FetchMain main = new FetchMain(arguments, ripc);
      boolean kill = main.checksum.equals("kill");
      main.fetch(!kill);
      System.out.println("ready");
      for (int round = 0; round < requests / 2; ++round) main.fetch(false);
      long[][] times = new long[threads][requests];
      CompletableFuture<?>[] all = new CompletableFuture<?>[threads];
      long cpu = cpuNanos();
      long began = System.nanoTime();
      for (int index = 0; index < threads; ++index) {
        long[] own = times[index];
        all[index] = CompletableFuture.runAsync(() -> main.run(own), task -> new Thread(task).start());
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
      main.fetch(!kill);
      main.client.stop();
    }
  }

  private void run(long[] times) {
    try {
      for (int index = 0; index < times.length; ++index) times[index] = fetch(false);
    } catch (Exception problem) {
      throw new IllegalStateException(problem);
    }
  }

  private static long cpuNanos() {
    return java.lang.management.ManagementFactory.getPlatformMXBean(
            com.sun.management.OperatingSystemMXBean.class)
        .getProcessCpuTime();
  }
}
