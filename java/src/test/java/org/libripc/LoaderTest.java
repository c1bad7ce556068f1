// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * How the native library is found, and what is said when it is not. Each case is a JVM of its own.
 */
class LoaderTest {
  @TempDir Path directory;

  /** What those JVMs run: prints the binding, or why there is none. */
  static final class Main {
    private Main() {}

    public static void main(String[] arguments) {
      try {
        System.out.print(Ripc.bindingName() + " " + Ripc.version());
      } catch (UnsatisfiedLinkError problem) {
        System.out.print(problem.getMessage());
      }
    }
  }

  private static String run(String... options) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of(options));
    command.addAll(List.of("-cp", PeerProcess.classPath(), Main.class.getName()));
    Process process =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor());
    return said;
  }

  private Path copyOf(String name) throws IOException {
    String resource = "META-INF/native/linux-" + System.getProperty("os.arch") + "/" + name;
    try (var content = LoaderTest.class.getClassLoader().getResourceAsStream(resource)) {
      Files.copy(content, directory.resolve(name), StandardCopyOption.REPLACE_EXISTING);
    }
    return directory.resolve(name);
  }

  @Test
  void theLibrariesOfTheJarAreLoadedAndTheirFilesAreGone() throws Exception {
    assertEquals(
        "jni " + Ripc.version(), run("-Djava.io.tmpdir=" + directory, "-Djna.tmpdir=" + directory));
    try (Stream<Path> left = Files.list(directory)) {
      assertEquals(
          List.of(),
          left.filter(path -> path.getFileName().toString().startsWith("libripc")).toList());
    }
  }

  @Test
  void aPropertyForcesEitherBinding() throws Exception {
    assertEquals("jna " + Ripc.version(), run("-Dorg.libripc.binding=jna"));
    assertEquals("jni " + Ripc.version(), run("-Dorg.libripc.binding=jni"));
    assertTrue(run("-Dorg.libripc.binding=smoke").contains("jni or jna"));
  }

  @Test
  void aPropertyNamesAnotherLibrary() throws Exception {
    copyOf("libripc.so");
    assertEquals(
        "jna " + Ripc.version(),
        run("-Dorg.libripc.library.path=" + directory),
        "it has no libripc-jni.so");
    assertTrue(
        run("-Dorg.libripc.binding=jni", "-Dorg.libripc.library.path=" + directory)
            .contains("libripc-jni.so"));
    Path jni = copyOf("libripc-jni.so");
    assertEquals(
        "jni " + Ripc.version(),
        run("-Dorg.libripc.library.path=" + directory.resolve("libripc.so")));
    Files.writeString(jni, "no library");
    assertEquals(
        "jna " + Ripc.version(),
        run("-Dorg.libripc.library.path=" + directory),
        "JNA is there too");
  }

  @Test
  void aLibraryThatDoesNotLoadSaysWhyAndWhatToDo() throws Exception {
    String missing = run("-Dorg.libripc.library.path=" + directory);
    assertTrue(
        missing.contains("no libripc.so in " + directory) && missing.contains("build/release/lib"),
        missing);
    Files.writeString(directory.resolve("libripc.so"), "no library");
    String broken = run("-Dorg.libripc.library.path=" + directory);
    assertTrue(broken.contains("does not load") && broken.contains("troubleshooting"), broken);
    String nowhere =
        run("-Djava.io.tmpdir=" + directory.resolve("absent"), "-Djna.tmpdir=" + directory);
    assertTrue(nowhere.contains("java.io.tmpdir"), nowhere);
  }
}
