// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The programs of examples/java, each side a process of its own. */
class ExamplesTest {
  @TempDir Path directory;

  private Process start(String... words) throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.add("-Dorg.libripc.binding=" + System.getProperty("org.libripc.binding", ""));
    command.addAll(List.of("-cp", PeerProcess.classPath()));
    command.addAll(List.of(words));
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
    builder.environment().put("RIPC_RUNTIME_DIR", directory.resolve("run").toString());
    return builder.start();
  }

  private static String ended(int status, Process process) throws Exception {
    String said = process.inputReader().lines().collect(Collectors.joining("\n"));
    assertTrue(process.waitFor(PairTest.LIMIT, TimeUnit.SECONDS));
    assertEquals(status, process.exitValue(), said);
    return said;
  }

  private String run(int status, String... words) throws Exception {
    return ended(status, start(words));
  }

  @Test
  void echo() throws Exception {
    Process server = start("Echo", "server");
    BufferedReader said = server.inputReader();
    assertEquals("Echo: serving", said.readLine());
    assertEquals(
        "Echo: one -> one\nEcho: two words -> two words\nEcho: bye -> bye",
        run(0, "Echo", "client", "one", "two words", "bye"));
    assertEquals("Echo: sent back 3 words", said.readLine());
    assertEquals("", ended(0, server));
  }

  @Test
  void fileFetch() throws Exception {
    Path files = Files.createDirectory(directory.resolve("files"));
    byte[] large = new byte[3_000_000];
    new Random(1).nextBytes(large);
    Files.write(files.resolve("large"), large);
    Files.writeString(files.resolve("small"), "a small file\n");
    Files.createFile(files.resolve("empty"));
    Process server = start("FileFetch", "server", files.toString());
    assertEquals("FileFetch: serving", server.inputReader().readLine());
    Path copy = directory.resolve("copy");
    assertEquals(
        "FileFetch: large: 3000000 bytes, lent",
        run(0, "FileFetch", "client", "large", copy.toString()));
    assertArrayEquals(large, Files.readAllBytes(copy));
    assertEquals(
        "FileFetch: small: 13 bytes, in the message",
        run(0, "FileFetch", "client", "small", copy.toString()));
    assertEquals("a small file\n", Files.readString(copy));
    assertEquals(
        "FileFetch: empty: 0 bytes, in the message",
        run(0, "FileFetch", "client", "empty", copy.toString()));
    assertEquals(0, Files.size(copy));
    assertEquals(
        "FileFetch: ../copy: no such file",
        run(1, "FileFetch", "client", "../copy", copy.toString()));
    assertEquals("FileFetch: .: no such file", run(1, "FileFetch", "client", ".", copy.toString()));
    assertEquals("", ended(0, server));
  }

  @Test
  void requests() throws Exception {
    assertEquals(
        "Requests: 100000 squares in the return buffer, the last is 998001\n"
            + "Requests: the ticket of the answer is complete",
        run(0, "Requests"));
  }

  @Test
  void calls() throws Exception {
    Process server = start("Calls", "server");
    assertEquals("Calls: serving", server.inputReader().readLine());
    assertEquals(
        "Calls: cake: 20 each, 12 in stock\nCalls: rolls: 25 each, 12 in stock",
        run(0, "Calls", "client", "cake", "rolls", "bye"));
    assertEquals("Calls: the shop is closed", ended(0, server));
  }
}
