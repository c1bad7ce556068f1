// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.libripc.SurvivalWorld.Case;

/** The JVM of {@link SurvivalTest}: runs one case after the other and prints its outcome. */
final class SurvivalMain {
  private static final int LIMIT = 60;

  private SurvivalMain() {}

  private static List<Case> cases() {
    return Stream.of(
            SurvivalMemoryCases.all(),
            SurvivalSendCases.all(),
            SurvivalCases.all(),
            SurvivalFileCases.all(),
            SurvivalSweep.all())
        .flatMap(List::stream)
        .toList();
  }

  static List<String> names() {
    return cases().stream().map(Case::name).toList();
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream out = System.out;
    List<Case> cases = cases();
    for (int index = Integer.parseInt(arguments[2]); index < cases.size(); ++index) {
      Path directory = Files.createTempDirectory(Path.of(arguments[1]), "case");
      out.println(index + "\t" + outcome(cases.get(index), arguments[0], directory));
    }
    // Cases that hang have been reported; their threads end here.
    Runtime.getRuntime().halt(0);
  }

  private static String outcome(Case each, String transport, Path directory) throws Exception {
    CompletableFuture<String> outcome = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try (SurvivalWorld world = new SurvivalWorld(transport, directory)) {
                outcome.complete(each.outcome(world));
              } catch (Throwable thrown) {
                outcome.complete("at its end: " + thrown);
              }
            },
            each.name());
    thread.setDaemon(true);
    thread.start();
    try {
      return outcome.get(LIMIT, TimeUnit.SECONDS).replace('\n', ' ');
    } catch (TimeoutException stuck) {
      return "It hangs: " + List.of(thread.getStackTrace());
    } catch (ExecutionException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
