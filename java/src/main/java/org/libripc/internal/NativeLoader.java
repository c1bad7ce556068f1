// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/**
 * Loads libripc.so and, unless told otherwise, libripc-jni.so. It takes the files from the
 * directory that {@value #PATH_PROPERTY} names, else from the jar. Files from the jar are unpacked
 * into a new directory that only this user can enter, and that is removed before this returns.
 */
final class NativeLoader {
  static final String PATH_PROPERTY = "org.libripc.library.path";
  static final String BINDING_PROPERTY = "org.libripc.binding";

  private static final String LIBRARY = "libripc.so";
  private static final String JNI_LIBRARY = "libripc-jni.so";

  private NativeLoader() {}

  static NativeBinding load() {
    String wanted = System.getProperty(BINDING_PROPERTY, "");
    if (!List.of("", "jni", "jna").contains(wanted)) {
      throw new UnsatisfiedLinkError(
          BINDING_PROPERTY + " is '" + wanted + "': set it to jni or jna, or leave it out.");
    }
    String system = System.getProperty("os.name") + " " + System.getProperty("os.arch");
    if (!system.equals("Linux amd64") && !system.equals("Linux aarch64")) {
      throw new UnsatisfiedLinkError(
          "libripc runs on 64-bit Linux, on x86-64 and ARM; this JVM is for " + system + ".");
    }
    String path = System.getProperty(PATH_PROPERTY, "");
    if (!path.isEmpty())
      return loadFrom(directoryOf(Path.of(path)), wanted, PATH_PROPERTY + "=" + path);
    return loadFromJar("META-INF/native/linux-" + System.getProperty("os.arch"), wanted);
  }

  private static Path directoryOf(Path path) {
    Path directory = Files.isRegularFile(path) ? path.toAbsolutePath().getParent() : path;
    if (Files.isRegularFile(directory.resolve(LIBRARY))) return directory;
    throw new UnsatisfiedLinkError(
        "There is no "
            + LIBRARY
            + " in "
            + directory
            + ", which "
            + PATH_PROPERTY
            + " names: set it to the directory that has it, such as build/release/lib or /usr/local/lib.");
  }

  private static NativeBinding loadFromJar(String folder, String wanted) {
    Path directory = null;
    List<Path> files = new ArrayList<>();
    try {
      directory =
          Files.createTempDirectory(
              "libripc-",
              PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
      for (String name : List.of(LIBRARY, JNI_LIBRARY)) {
        try (InputStream content =
            NativeLoader.class.getClassLoader().getResourceAsStream(folder + "/" + name)) {
          if (content == null) continue;
          files.add(directory.resolve(name));
          Files.copy(content, directory.resolve(name));
        }
      }
      if (!Files.exists(directory.resolve(LIBRARY))) {
        throw new UnsatisfiedLinkError(
            "This jar has no "
                + folder
                + "/"
                + LIBRARY
                + ": it was built for another processor. Build libripc there ("
                + "docs/java.md) and name its directory with -D"
                + PATH_PROPERTY
                + "=DIRECTORY.");
      }
      return loadFrom(directory, wanted, folder + " of the jar");
    } catch (IOException problem) {
      throw linkError(
          "The native libraries could not be written to a directory under "
              + System.getProperty("java.io.tmpdir")
              + " ("
              + problem
              + "): set java.io.tmpdir to one that is writable, or "
              + PATH_PROPERTY
              + " to where libripc.so lies.",
          problem);
    } finally {
      // A loaded library stays mapped without its file.
      for (Path file : files) remove(file);
      if (directory != null) remove(directory);
    }
  }

  private static void remove(Path path) {
    try {
      Files.deleteIfExists(path);
    } catch (IOException problem) {
      System.getLogger("org.libripc")
          .log(System.Logger.Level.WARNING, "{0} could not be removed: {1}", path, problem);
    }
  }

  private static NativeBinding loadFrom(Path directory, String wanted, String origin) {
    Path jni = directory.resolve(JNI_LIBRARY);
    String problem = null;
    if (!wanted.equals("jna") && (wanted.equals("jni") || Files.isRegularFile(jni))) {
      try {
        System.load(jni.toAbsolutePath().toString());
      } catch (UnsatisfiedLinkError failure) {
        problem = JNI_LIBRARY + " (" + origin + ") does not load: " + failure.getMessage();
        if (wanted.equals("jni")) {
          throw linkError(
              problem + ". Leave " + BINDING_PROPERTY + " out to go on without it.", failure);
        }
      }
      if (problem == null) return open(directory, origin, JniBinding::new);
    }
    loadJna(problem);
    if (problem != null) {
      System.getLogger("org.libripc")
          .log(
              System.Logger.Level.WARNING,
              problem + ". JNA does its work, at several times the cost for each message.");
    }
    return open(directory, origin, JnaBinding::new);
  }

  private static NativeBinding open(
      Path directory, String origin, Function<String, NativeBinding> binding) {
    try {
      return binding.apply(directory.resolve(LIBRARY).toAbsolutePath().toString());
    } catch (UnsatisfiedLinkError problem) {
      throw linkError(
          LIBRARY + " (" + origin + ") does not load: " + problem.getMessage() + advice(problem),
          problem);
    }
  }

  /** {@code problem}: why JNI cannot be used; null if JNA was asked for. */
  private static void loadJna(String problem) {
    String why = problem == null ? "" : problem + ". And without it ";
    try {
      JnaBinding.loadJna();
    } catch (NoClassDefFoundError missing) {
      throw linkError(
          why
              + "JNA is needed, which is not on the class path: add net.java.dev.jna:jna, or use JNI with a "
              + JNI_LIBRARY
              + " that loads ("
              + BINDING_PROPERTY
              + "=jni).",
          missing);
    } catch (UnsatisfiedLinkError broken) {
      throw linkError(
          why
              + "JNA's own library does not load: "
              + broken.getMessage()
              + ". Set java.io.tmpdir or jna.tmpdir to a directory that is writable and not mounted noexec, or use"
              + " JNI ("
              + BINDING_PROPERTY
              + "=jni).",
          broken);
    }
  }

  private static String advice(Throwable problem) {
    String text = String.valueOf(problem.getMessage());
    if (text.contains("libsodium")) return ". Install it: apt-get install libsodium23.";
    if (text.contains("libstdc++")) return ". Install it: apt-get install libstdc++6.";
    if (text.contains("GLIBC"))
      return ". It was built on a newer system: build libripc on this one (docs/java.md).";
    if (text.contains("failed to map segment")) {
      return ". The temporary directory does not allow programs (noexec): set java.io.tmpdir to another one.";
    }
    return ". See docs/troubleshooting.md, \"Java\".";
  }

  private static UnsatisfiedLinkError linkError(String text, Throwable cause) {
    UnsatisfiedLinkError error = new UnsatisfiedLinkError(text);
    error.initCause(cause);
    return error;
  }
}
