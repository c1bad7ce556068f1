// SPDX-License-Identifier: Apache-2.0
package org.libripc.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.libripc.MessageBatch;
import org.libripc.Outgoing;
import org.libripc.Ripc;

/**
 * Measures round trips of 64 bytes in Java and in C++, which take turns so short that both meet the
 * machine in the same state: `Beside RIPC-PROGRAM TURNS`. Both measure from before the send until
 * after the receive; they compare the payload outside of that interval, each time.
 */
final class Beside {
  static final int WARM_UP = 1_000;
  static final int COUNT = 50_000;
  private static final int SIZE = 64;
  private static final int FIRST_BLOCKS = 20; // to warm up the compiler
  // Lies between the times that a cache line takes between near and between far processors, in ns.
  private static final double FAR = 300;

  private record Native(double trip, double line) {
    boolean isFar() {
      return line > FAR;
    }
  }

  private record Turn(double trip, Native before, Native after) {
    boolean isSteady() {
      return before.isFar() == after.isFar();
    }

    double ratio() {
      return trip / ((before.trip + after.trip) / 2);
    }
  }

  private final String program;
  private final Pair pair;
  private final ByteBuffer payload = Pair.payload(SIZE);
  private final Outgoing message = new Outgoing();
  private final MessageBatch batch;
  private final long[] samples = new long[COUNT];

  private Beside(String program) throws IOException {
    this.program = program;
    pair = new Pair("blocks");
    batch = pair.client.batch(16, 1 << 16);
  }

  public static void main(String[] arguments) throws Exception {
    Beside beside = new Beside(arguments[0]);
    // The executor's thread is pinned; this one is not, because what it starts inherits that.
    ExecutorService measuring = Executors.newSingleThreadExecutor();
    try {
      measuring.submit(() -> Pair.pin(0)).get();
      beside.run(measuring, Integer.parseInt(arguments[1]));
    } finally {
      measuring.shutdown();
      beside.pair.close();
    }
  }

  private void run(ExecutorService measuring, int count) throws Exception {
    for (int block = 0; block < FIRST_BLOCKS; ++block) block(measuring);
    List<Turn> turns = new ArrayList<>();
    Native before = measureNative();
    for (int turn = 0; turn < count; ++turn) {
      double trip = block(measuring);
      Native after = measureNative();
      turns.add(new Turn(trip, before, after));
      before = after;
    }
    System.out.printf(
        "%-5s %6s %6s %12s %12s %7s%n",
        "who", "state", "turns", "C++ p50, ns", "Java p50, ns", "ratio");
    print("near", turns, turn -> turn.isSteady() && !turn.before.isFar());
    print("far", turns, turn -> turn.isSteady() && turn.before.isFar());
    print("change", turns, turn -> !turn.isSteady());
  }

  private static void print(String state, List<Turn> all, Predicate<Turn> which) {
    List<Turn> turns = all.stream().filter(which).toList();
    if (turns.isEmpty()) return;
    System.out.printf(
        Locale.ROOT,
        "%-5s %6s %6d %12.0f %12.0f %7.2f%n",
        Ripc.bindingName(),
        state,
        turns.size(),
        median(
            turns.stream().mapToDouble(turn -> (turn.before.trip + turn.after.trip) / 2).toArray()),
        median(turns.stream().mapToDouble(Turn::trip).toArray()),
        median(turns.stream().mapToDouble(Turn::ratio).toArray()));
  }

  private static double median(double[] values) {
    Arrays.sort(values);
    return values[values.length / 2];
  }

  // The median of a block, in ns.
  private double block(ExecutorService measuring) throws ExecutionException, InterruptedException {
    return measuring.submit(this::measure).get();
  }

  private double measure() throws IOException, InterruptedException {
    pair.beginBlock();
    for (int count = 0; count < WARM_UP + COUNT; ++count) {
      payload.putInt(0, count);
      long start = System.nanoTime();
      pair.client.send(pair.far, message.clear().add(payload));
      while (pair.client.receive(batch, 1, TimeUnit.SECONDS) == 0) {}
      long end = System.nanoTime();
      if (!payload.equals(batch.get(0).item(0)))
        throw new IllegalStateException("another payload came back");
      if (count >= WARM_UP) samples[count - WARM_UP] = end - start;
    }
    Arrays.sort(samples);
    return samples[COUNT / 2];
  }

  private Native measureNative() throws IOException {
    Process process =
        new ProcessBuilder(
                program,
                "bench",
                "pingpong",
                "--transport",
                "shm",
                "--json",
                "--size",
                String.valueOf(SIZE),
                "--iterations",
                String.valueOf(COUNT))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    String text = new String(process.getInputStream().readAllBytes());
    return new Native(
        number(text, "\"rtt_ns\"\\s*:[^}]*\"p50\""), number(text, "\"cacheline_rtt_ns\""));
  }

  private static double number(String text, String name) throws IOException {
    Matcher found = Pattern.compile(name + "\\s*:\\s*([0-9.]+)").matcher(text);
    if (!found.find()) throw new IOException("no " + name + " in: " + text);
    return Double.parseDouble(found.group(1));
  }
}
