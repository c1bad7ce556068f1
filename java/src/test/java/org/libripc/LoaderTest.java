// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * How the native library is found, and what the error says when it is not. Each case runs in its
 * own JVM.
 */
class LoaderTest {
  private static final String JNA = System.getProperty("org.libripc.test.jna");

  @TempDir Path directory;

  /** The class path of these tests, without JNA if it is there. */
  private static String withoutJna() {
    return Arrays.stream(PeerProcess.classPath().split(File.pathSeparator))
        .filter(entry -> !entry.equals(JNA))
        .collect(Collectors.joining(File.pathSeparator));
  }

  /** What those JVMs run: prints the binding, or why there is none. */
  static final class Main {
    private Main() {}

    public static void main(String[] arguments) {
      try {
        if (arguments.length > 0) ServiceId.ofName(arguments[0]);
        System.out.print(Ripc.bindingName() + " " + Ripc.version());
      } catch (UnsatisfiedLinkError problem) {
        System.out.print(problem.getMessage());
        if (arguments.length > 1) main(new String[] {arguments[1]});
      }
    }
  }

  private static String run(String... options) throws Exception {
    return run(ProcessBuilder.Redirect.INHERIT, List.of(), options);
  }

  private static String run(
      ProcessBuilder.Redirect errors, List<String> arguments, String... options) throws Exception {
    return run(errors, withoutJna() + File.pathSeparator + JNA, arguments, options);
  }

  private static String runWithoutJna(String... options) throws Exception {
    return run(ProcessBuilder.Redirect.INHERIT, withoutJna(), List.of(), options);
  }

  private static String run(
      ProcessBuilder.Redirect errors, String classPath, List<String> arguments, String... options)
      throws Exception {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of(options));
    command.addAll(List.of("-cp", classPath, Main.class.getName()));
    command.addAll(arguments);
    Process process = new ProcessBuilder(command).redirectError(errors).start();
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
  void theNameOfALibrarysDirectoryMayHaveAnyCharacter() throws Exception {
    assumeTrue(System.getProperty("sun.jnu.encoding").equals("UTF-8"), "not in this locale");
    for (String name : List.of("caf\u00e9", "rocket \ud83d\ude80")) {
      Path other = Files.createDirectory(directory.resolve(name));
      Files.move(copyOf("libripc.so"), other.resolve("libripc.so"));
      Files.move(copyOf("libripc-jni.so"), other.resolve("libripc-jni.so"));
      for (String binding : List.of("jni", "jna")) {
        assertEquals(
            binding + " " + Ripc.version(),
            run("-Dorg.libripc.binding=" + binding, "-Dorg.libripc.library.path=" + other));
      }
      Files.writeString(other.resolve("libripc.so"), "no library");
      String broken = run("-Dorg.libripc.binding=jni", "-Dorg.libripc.library.path=" + other);
      assertTrue(broken.contains(other + "/libripc.so: "), broken);
    }
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

  @Test
  void jnaThatDoesNotLoadSaysSoEachTimeWhateverIsCalledFirst() throws Exception {
    String said =
        run(
            ProcessBuilder.Redirect.INHERIT,
            List.of("a name", "another name"),
            "-Dorg.libripc.binding=jna",
            "-Djna.nounpack=true",
            "-Djna.nosys=true",
            "-Djna.boot.library.path=" + directory);
    String sentence = "JNA's own library does not load";
    assertTrue(said.startsWith(sentence) && said.lastIndexOf(sentence) > 0, said);
    assertTrue(said.contains("jna.tmpdir"), said);
  }

  // Surefire runs all tests with JNI without JNA; this test shows it explicitly.
  @Test
  void withJniNothingElseIsNeededAndWithoutItJnaIsAskedFor() throws Exception {
    assertEquals("jni " + Ripc.version(), runWithoutJna());
    String missing = runWithoutJna("-Dorg.libripc.binding=jna");
    assertTrue(missing.contains("add net.java.dev.jna:jna"), missing);
    copyOf("libripc.so");
    Files.writeString(directory.resolve("libripc-jni.so"), "no library");
    String neither = runWithoutJna("-Dorg.libripc.library.path=" + directory);
    assertTrue(neither.contains("libripc-jni.so") && neither.contains("add net.java"), neither);
  }

  @Test
  void jniThatDoesNotLoadIsLogged() throws Exception {
    copyOf("libripc.so");
    Files.writeString(directory.resolve("libripc-jni.so"), "no library");
    Path log = directory.resolve("log");
    String binding =
        run(
            ProcessBuilder.Redirect.to(log.toFile()),
            List.of(),
            "-Dorg.libripc.library.path=" + directory);
    assertEquals("jna " + Ripc.version(), binding);
    assertTrue(Files.readString(log).contains("libripc-jni.so"), Files.readString(log));
  }
}
