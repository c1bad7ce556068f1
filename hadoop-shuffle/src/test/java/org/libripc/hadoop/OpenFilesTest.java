// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Many files through few descriptors. */
class OpenFilesTest {
  @TempDir Path folder;
  private final List<FileChannel> opened = new ArrayList<>();

  private FileChannel open(Path file) throws IOException {
    FileChannel channel = FileChannel.open(file);
    opened.add(channel);
    return channel;
  }

  private Path file(int number) throws IOException {
    return Files.writeString(folder.resolve("file" + number), "content " + number);
  }

  private static String read(OpenFiles files, Path file, int length) throws IOException {
    ByteBuffer to = ByteBuffer.allocate(length);
    files.readFully(file, to, 0);
    return new String(to.array());
  }

  private long open() {
    return opened.stream().filter(FileChannel::isOpen).count();
  }

  @Test
  void noMoreAreOpenThanAllowed() throws IOException {
    try (OpenFiles files = new OpenFiles(10, this::open)) {
      for (int number = 0; number < 1000; ++number) {
        assertEquals("content", read(files, file(number), 7));
        assertTrue(open() <= 10);
      }
      assertEquals(10, files.count());
    }
    assertEquals(0, open());
  }

  @Test
  void anOftenUsedFileStaysOpen() throws IOException {
    try (OpenFiles files = new OpenFiles(2, this::open)) {
      Path often = file(0);
      for (int number = 1; number < 20; ++number) {
        read(files, often, 7);
        read(files, file(number), 7);
      }
      assertEquals(20, opened.size(), "each was opened once");
    }
  }

  @Test
  void aDroppedOneIsOpenedAgain() throws IOException {
    try (OpenFiles files = new OpenFiles(2, this::open)) {
      Path file = file(1);
      read(files, file, 7);
      files.drop(file::equals);
      assertEquals(0, open());
      assertEquals("content 1", read(files, file, 9));
    }
  }

  @Test
  void aShortFileIsNoContent() throws IOException {
    try (OpenFiles files = new OpenFiles(2, this::open)) {
      Path file = file(1);
      assertThrows(EOFException.class, () -> read(files, file, 10));
    }
  }

  @Test
  void anInterruptedReaderHurtsNobodyElse() throws Exception {
    try (OpenFiles files = new OpenFiles(2, this::open)) {
      Path file = file(1);
      read(files, file, 7);
      Thread.currentThread().interrupt();
      assertThrows(ClosedByInterruptException.class, () -> read(files, file, 7));
      assertTrue(Thread.interrupted());
      assertFalse(opened.get(0).isOpen());
      assertEquals("content 1", read(files, file, 9));
    }
  }
}
