// SPDX-License-Identifier: Apache-2.0
package org.libripc.bench;

import com.sun.jna.LastErrorException;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.libripc.Ripc;
import org.libripc.Service;
import org.libripc.ServiceId;

/**
 * A service here and one in another JVM ({@link Far}), over shared memory. The other JVM is on core
 * 1; the measuring thread pins itself to core 0.
 */
final class Pair {
  static final String NAME = "far";

  static {
    Native.register(Pair.class, "c");
  }

  private static native int sched_setaffinity(int thread, long size, Pointer mask)
      throws LastErrorException;

  private final Path directory;
  private final Process process;
  private final Ripc ripc;
  final Service client;
  final ServiceId far;

  Pair(String role) throws IOException {
    directory = Files.createTempDirectory("ripc-bench-");
    process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Dorg.libripc.binding=" + System.getProperty("org.libripc.binding", ""),
                "-cp",
                System.getProperty("java.class.path"),
                Far.class.getName(),
                directory.toString(),
                role)
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    if (process.getInputStream().read() != 'r' || process.getInputStream().read() != '\n')
      throw new IOException("the other process does not start");
    ripc = open(directory);
    client = ripc.register();
    far = ServiceId.ofName(NAME);
  }

  /** Asks the other process, with the role `blocks`, to answer the messages of one block. */
  void beginBlock() throws IOException {
    process.getOutputStream().write('b');
    process.getOutputStream().flush();
    if (process.getInputStream().read() != 'b')
      throw new IOException("the other process has ended");
  }

  static Ripc open(Path directory) {
    return Ripc.builder()
        .runtimeDirectory(directory)
        .transports("shm")
        .spin(10, TimeUnit.SECONDS)
        .open();
  }

  /** Pins the calling thread to a core, if there is more than one. */
  static void pin(int core) {
    if (Runtime.getRuntime().availableProcessors() < 2) return;
    try (Memory mask = new Memory(128)) {
      mask.clear();
      mask.setByte(0, (byte) (1 << core));
      sched_setaffinity(0, mask.size(), mask);
    }
  }

  static ByteBuffer payload(int size) {
    ByteBuffer payload = ByteBuffer.allocateDirect(size);
    while (payload.hasRemaining()) payload.put((byte) payload.position());
    return payload.flip();
  }

  void close() throws Exception {
    ripc.close();
    process.getOutputStream().close();
    process.waitFor();
    try (Stream<Path> left = Files.walk(directory)) {
      for (Path path : left.sorted(Comparator.reverseOrder()).toList()) Files.deleteIfExists(path);
    }
  }
}
