// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.lang.module.ModuleFinder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicContainer;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/**
 * No argument that Java can make ends the JVM: each way to misuse the interface ends with what its
 * documentation says. The cases run in a JVM of their own ({@link SurvivalMain}), so that a case
 * that ends the JVM is known.
 */
class SurvivalTest {
  @TempDir Path directory;

  @TestFactory
  Stream<DynamicContainer> everyMisuseEndsAsDocumentedAndTheJvmLives() {
    return PairTest.transports().stream()
        .map(
            transport -> {
              Map<String, String> outcomes = run(transport);
              assertTrue(outcomes.size() >= 80, outcomes.size() + " cases");
              return DynamicContainer.dynamicContainer(
                  transport,
                  outcomes.entrySet().stream()
                      .map(
                          each ->
                              DynamicTest.dynamicTest(
                                  each.getKey(), () -> assertEquals("", each.getValue()))));
            });
  }

  /** Returns what was wrong with each case: an empty text if it ended as it should. */
  private Map<String, String> run(String transport) {
    List<String> names = SurvivalMain.names();
    Map<String, String> outcomes = new LinkedHashMap<>();
    while (outcomes.size() < names.size()) runFrom(transport, names, outcomes);
    return outcomes;
  }

  /** Runs the cases that have no outcome yet, until the JVM ends. */
  private void runFrom(String transport, List<String> names, Map<String, String> outcomes) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    // Later versions of Java have this without the option.
    if (ModuleFinder.ofSystem().find("jdk.incubator.foreign").isPresent())
      command.addAll(List.of("--add-modules", "jdk.incubator.foreign"));
    command.addAll(
        List.of(
            "-XX:-CreateCoredumpOnCrash",
            "-XX:TieredStopAtLevel=1", // each case runs once
            "-XX:+UseSerialGC",
            "-XX:ErrorFile=" + directory.resolve("error.log"),
            "-Xmx128m",
            "-Dorg.libripc.binding=" + System.getProperty("org.libripc.binding", ""),
            "-cp",
            PeerProcess.classPath(),
            SurvivalMain.class.getName(),
            transport,
            directory.toString(),
            String.valueOf(outcomes.size())));
    try {
      Process process =
          new ProcessBuilder(command).redirectError(directory.resolve("errors").toFile()).start();
      try (BufferedReader said = process.inputReader()) {
        for (String line = said.readLine(); line != null; line = said.readLine()) {
          String[] words = line.split("\t", 2);
          if (words.length == 2 && words[0].equals(String.valueOf(outcomes.size())))
            outcomes.put(names.get(outcomes.size()), words[1]);
        }
      }
      int code = process.waitFor();
      if (outcomes.size() < names.size())
        outcomes.put(names.get(outcomes.size()), "The JVM ended with " + code);
    } catch (IOException | InterruptedException problem) {
      throw new IllegalStateException(problem);
    }
  }
}
