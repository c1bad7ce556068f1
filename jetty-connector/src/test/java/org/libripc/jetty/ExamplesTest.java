// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * The programs of examples/jetty and the C++ client examples/http_get, each a process of its own. A
 * real directory gives the same bytes over libripc and over TCP.
 */
@Timeout(120)
class ExamplesTest {
  private static final long LIMIT = 60;

  @TempDir Path directory;
  private Path files;
  private Process server;
  private String port;

  private Process start(List<String> command) throws Exception {
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
    builder.environment().put("RIPC_RUNTIME_DIR", directory.resolve("run").toString());
    return builder.start();
  }

  private Process java(String... words) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.add("-XX:TieredStopAtLevel=1");
    command.add("-cp");
    command.add(
        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")));
    command.addAll(List.of(words));
    return start(command);
  }

  private static String ended(Process process) throws Exception {
    String said = process.inputReader().lines().collect(Collectors.joining("\n"));
    assertTrue(process.waitFor(LIMIT, TimeUnit.SECONDS));
    assertEquals(0, process.exitValue(), said);
    return said;
  }

  @BeforeEach
  void serve() throws Exception {
    files = Files.createDirectory(directory.resolve("files"));
    for (int size : HttpTest.SIZES) {
      Files.write(files.resolve("f" + size), HttpPairTest.pattern(size, size));
    }
    server = java("JettyFiles", files.toString(), "example-files", "0");
    String[] said = server.inputReader().readLine().split(" ");
    assertEquals("JettyFiles: serving", said[0] + " " + said[1]);
    port = said[2];
  }

  @AfterEach
  void end() throws Exception {
    server.getOutputStream().close();
    assertEquals("", ended(server));
  }

  @Test
  void jettyClientsGetTheSameBytesOverLibripcAndTcp() throws Exception {
    HttpClient tcp = HttpClient.newHttpClient();
    for (int size : new int[] {5_000, 5_000_000}) {
      Path copy = directory.resolve("copy");
      assertEquals(
          "JettyFetch: /f" + size + ": 200, " + size + " bytes",
          ended(java("JettyFetch", "example-files", "/f" + size, copy.toString())));
      assertArrayEquals(HttpPairTest.pattern(size, size), Files.readAllBytes(copy));
      URI uri = URI.create("http://127.0.0.1:" + port + "/f" + size);
      byte[] overTcp =
          tcp.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofByteArray())
              .body();
      assertArrayEquals(overTcp, Files.readAllBytes(copy));
    }
  }

  @Test
  void theClientWithoutJavaGetsThemToo() throws Exception {
    Path program = Path.of(System.getProperty("ripc.build.directory", "."), "examples", "http_get");
    assumeTrue(Files.isExecutable(program), program + " is not built");
    for (int size : HttpTest.SIZES) {
      Path copy = directory.resolve("copy");
      String said =
          ended(
              start(
                  List.of(program.toString(), "example-files", "/f" + size, copy.toString(), "5")));
      assertTrue(said.startsWith("http_get: /f" + size + ": 200, " + size + " bytes"), said);
      assertArrayEquals(HttpPairTest.pattern(size, size), Files.readAllBytes(copy));
    }
  }
}
