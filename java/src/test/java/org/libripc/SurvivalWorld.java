// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** What a case of {@link SurvivalMain} has: two contexts with a service each, and a file. */
final class SurvivalWorld implements AutoCloseable {
  interface Body {
    void run(SurvivalWorld world) throws Throwable;
  }

  /** A way to misuse the interface, and its expected end. {@code ends} gets null for a result. */
  record Case(String name, Body body, String ending, Predicate<Throwable> ends) {
    /** Returns an empty text if it ends as it should, else what is wrong. */
    String outcome(SurvivalWorld world) {
      Throwable thrown = null;
      try {
        body.run(world);
      } catch (Throwable each) {
        thrown = each;
      }
      return ends.test(thrown) ? "" : "It ends with " + thrown + ", not with " + ending;
    }
  }

  /** A case that ends with a result. */
  static Case fine(String name, Body body) {
    return new Case(name, body, "a result", thrown -> thrown == null);
  }

  static Case refused(String name, Class<? extends Throwable> type, Body body) {
    return new Case(name, body, type.getSimpleName(), type::isInstance);
  }

  static Case failing(String name, Status status, Body body) {
    return new Case(
        name,
        body,
        status.name(),
        thrown -> thrown instanceof RipcException problem && problem.status() == status);
  }

  private final String transport;
  private final Path directory;
  final Ripc ripc;
  final Ripc otherRipc;
  final Service from;
  final Service to;

  SurvivalWorld(String transport, Path directory) {
    this.transport = transport;
    this.directory = directory;
    ripc = open();
    otherRipc = open();
    from = ripc.register();
    to = otherRipc.register();
  }

  Ripc open() {
    return options().open();
  }

  RipcBuilder options() {
    return Ripc.builder()
        .runtimeDirectory(directory)
        .transports(transport)
        .clusterKeyFile(TestKey.in(directory))
        .poolLimit(64 << 20);
  }

  Path file() {
    return directory.resolve("file");
  }

  /** A file of this size, mapped. */
  ByteBuffer mapped(int size) {
    return mapped(size, MapMode.READ_WRITE);
  }

  ByteBuffer mapped(int size, MapMode mode) {
    try {
      Files.write(file(), new byte[size]);
      try (FileChannel channel =
          FileChannel.open(file(), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
        return channel.map(mode, 0, size);
      }
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
  }

  /** Mapped memory beyond this size is gone; it comes back if the file grows. */
  void resizeFile(long size) {
    try (FileChannel channel = FileChannel.open(file(), StandardOpenOption.WRITE)) {
      if (size < channel.size()) {
        channel.truncate(size);
      } else {
        channel.write(ByteBuffer.allocate(1), size - 1);
      }
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
  }

  /** A buffer over a memory segment that was closed, where this Java has them. */
  static ByteBuffer closedSegment(long size) throws ReflectiveOperationException {
    Class<?> segments;
    AutoCloseable arena;
    Object segment;
    try {
      Class<?> arenas = Class.forName("java.lang.foreign.Arena");
      segments = Class.forName("java.lang.foreign.MemorySegment");
      arena = (AutoCloseable) arenas.getMethod("ofConfined").invoke(null);
      segment = arenas.getMethod("allocate", long.class, long.class).invoke(arena, size, 8L);
    } catch (ReflectiveOperationException older) {
      Class<?> scopes = Class.forName("jdk.incubator.foreign.ResourceScope");
      segments = Class.forName("jdk.incubator.foreign.MemorySegment");
      arena = (AutoCloseable) scopes.getMethod("newConfinedScope").invoke(null);
      segment = segments.getMethod("allocateNative", long.class, scopes).invoke(null, size, arena);
    }
    ByteBuffer buffer = (ByteBuffer) segments.getMethod("asByteBuffer").invoke(segment);
    try {
      arena.close();
    } catch (Exception problem) {
      throw new IllegalArgumentException(problem);
    }
    return buffer;
  }

  /** A mapped buffer whose file is gone. */
  ByteBuffer gone(int size) {
    ByteBuffer mapped = mapped(size);
    resizeFile(0);
    return mapped;
  }

  Message receive(Service service) throws InterruptedException {
    Message message = service.receive(PairTest.LIMIT, TimeUnit.SECONDS);
    if (message == null) throw new IllegalStateException("no message came");
    return message;
  }

  /** Sends a message with these items, and returns it as received. */
  Message message(ByteBuffer... items) throws InterruptedException {
    Outgoing message = new Outgoing();
    for (ByteBuffer item : items) message.add(item);
    from.send(to.id(), message);
    return receive(to);
  }

  /** Runs a body while no direct memory is left. */
  void withoutMemory(Body body) throws Throwable {
    List<ByteBuffer> all = new ArrayList<>();
    // What earlier cases have lost ends step by step.
    for (int size : new int[] {1 << 20, 1 << 10, 1 << 20, 1 << 10}) {
      try {
        while (true) all.add(direct(size));
      } catch (OutOfMemoryError full) {
        // as it should be
      }
    }
    body.run(this);
    Reference.reachabilityFence(all);
  }

  static ByteBuffer direct(int size) {
    return ByteBuffer.allocateDirect(size);
  }

  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  @Override
  public void close() {
    ripc.close();
    otherRipc.close();
  }
}
