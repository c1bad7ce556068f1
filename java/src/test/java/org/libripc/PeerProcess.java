// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * A peer in another JVM ({@link PeerMain}), which gets its commands in lines. It is killed when it
 * is closed, at the latest.
 */
final class PeerProcess implements AutoCloseable {
  private final Process process;
  private final BufferedReader answers;
  private final PrintWriter commands;

  PeerProcess(String transport, Path directory) {
    try {
      process =
          new ProcessBuilder(
                  Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                  "-XX:TieredStopAtLevel=1",
                  "-Dorg.libripc.binding=" + System.getProperty("org.libripc.binding", ""),
                  "-cp",
                  classPath(),
                  PeerMain.class.getName(),
                  transport,
                  directory.toString())
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
    answers =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    commands = new PrintWriter(process.getOutputStream(), true, StandardCharsets.UTF_8);
  }

  static String classPath() {
    return System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
  }

  /** Sends a command and returns its answer. */
  String call(String... words) {
    tell(words);
    return answer();
  }

  void tell(String... words) {
    commands.println(String.join(" ", List.of(words)));
  }

  String answer() {
    try {
      return answers.readLine();
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
  }

  /** Sends SIGSTOP and waits until all threads have stopped: the process lives but does nothing. */
  void stop() {
    try {
      if (new ProcessBuilder("kill", "-STOP", String.valueOf(process.pid())).start().waitFor() != 0
          || !PairTest.eventually(this::isStopped))
        throw new IllegalStateException("it does not stop");
    } catch (IOException | InterruptedException problem) {
      throw new IllegalStateException(problem);
    }
  }

  private boolean isStopped() {
    try (Stream<Path> tasks = Files.list(Path.of("/proc/" + process.pid() + "/task"))) {
      for (Path task : (Iterable<Path>) tasks::iterator) {
        String stat = Files.readString(task.resolve("stat"));
        if (stat.charAt(stat.lastIndexOf(") ") + 2) != 'T') return false;
      }
      return true;
    } catch (IOException aThreadEnded) {
      return false;
    }
  }

  /** Sends SIGKILL and waits until the process is gone. */
  void kill() {
    process.destroyForcibly();
    try {
      if (!process.waitFor(PairTest.LIMIT, TimeUnit.SECONDS))
        throw new IllegalStateException("it does not die");
    } catch (InterruptedException interrupted) {
      throw new IllegalStateException(interrupted);
    }
  }

  @Override
  public void close() {
    kill();
  }
}
