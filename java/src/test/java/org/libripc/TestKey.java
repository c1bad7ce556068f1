// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.HexFormat;

/** The cluster key of a test, and of the processes that it starts. */
final class TestKey {
  private TestKey() {}

  /** Returns a key file in the folder, the same for all callers; the test's process is first. */
  static Path in(Path folder) {
    Path file = folder.resolve("cluster.key");
    byte[] key = new byte[32];
    new SecureRandom().nextBytes(key);
    try {
      Files.createFile(
          file, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
      Files.writeString(file, HexFormat.of().formatHex(key));
    } catch (FileAlreadyExistsException isThere) {
      return file;
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
    return file;
  }
}
