// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The program of examples/stream, as two processes. */
@Timeout(120)
class ExampleTest {
  @TempDir Path directory;

  private Process java(String side) throws Exception {
    ProcessBuilder builder =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-cp",
                System.getProperty(
                    "surefire.test.class.path", System.getProperty("java.class.path")),
                "StreamEcho",
                side)
            .redirectError(ProcessBuilder.Redirect.INHERIT);
    builder.environment().put("RIPC_RUNTIME_DIR", directory.toString());
    return builder.start();
  }

  private static String ended(Process process) throws Exception {
    String said = process.inputReader().lines().collect(Collectors.joining("\n"));
    assertTrue(process.waitFor(60, TimeUnit.SECONDS));
    assertEquals(0, process.exitValue(), said);
    return said;
  }

  @Test
  void theClientGetsItsBytesBack() throws Exception {
    Process server = java("server");
    assertTrue(server.inputReader().readLine().startsWith("StreamEcho: serving "));
    assertEquals("StreamEcho: hello", ended(java("client")));
    server.getOutputStream().close();
    assertEquals("", ended(server));
  }
}
