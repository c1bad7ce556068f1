// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Predicate;

/**
 * Reads files through a bounded number of descriptors: the least recently used ones are closed. All
 * threads.
 */
final class OpenFiles implements Closeable {
  /** How a file is opened. */
  interface Opener {
    FileChannel open(Path file) throws IOException;
  }

  private static final class Entry {
    final FileChannel channel;
    int users;
    boolean dropped;

    Entry(FileChannel channel) {
      this.channel = channel;
    }
  }

  private final int limit;
  private final Opener opener;
  private final Map<Path, Entry> entries = new LinkedHashMap<>(16, 0.75f, true);

  /**
   * @param limit more files are open only while more threads than that read
   */
  OpenFiles(int limit, Opener opener) {
    this.limit = limit;
    this.opener = opener;
  }

  /**
   * Reads until the buffer is full.
   *
   * @throws EOFException if the file is shorter
   */
  void readFully(Path file, ByteBuffer to, long position) throws IOException {
    int start = to.position();
    while (to.hasRemaining()) {
      if (read(file, to, position + to.position() - start) < 0)
        throw new EOFException(file + " is too short");
    }
  }

  /** Reads at least one byte; -1 at the end. */
  int read(Path file, ByteBuffer to, long position) throws IOException {
    for (int attempt = 0; ; ++attempt) {
      Entry entry = acquire(file);
      try {
        return entry.channel.read(to, position);
      } catch (ClosedByInterruptException mine) {
        drop(file::equals);
        throw mine;
      } catch (ClosedChannelException another) {
        // Another thread was interrupted while it read, which closes the channel.
        drop(file::equals);
        if (attempt == 3) throw another;
      } finally {
        release(entry);
      }
    }
  }

  private Entry acquire(Path file) throws IOException {
    synchronized (this) {
      Entry entry = entries.get(file);
      if (entry != null) {
        ++entry.users;
        return entry;
      }
    }
    Entry opened = new Entry(opener.open(file));
    synchronized (this) {
      opened.users = 1;
      Entry before = entries.put(file, opened);
      if (before != null) discard(before);
      shrink();
      return opened;
    }
  }

  private synchronized void release(Entry entry) {
    --entry.users;
    if (entry.users == 0 && entry.dropped) close(entry.channel);
  }

  private void shrink() {
    Iterator<Entry> eldest = entries.values().iterator();
    while (entries.size() > limit && eldest.hasNext()) {
      Entry entry = eldest.next();
      if (entry.users != 0) continue;
      eldest.remove();
      discard(entry);
    }
  }

  private static void discard(Entry entry) {
    entry.dropped = true;
    if (entry.users == 0) close(entry.channel);
  }

  private static void close(FileChannel channel) {
    try {
      channel.close();
    } catch (IOException nothingWasWritten) {
      // and nothing is lost
    }
  }

  /** Closes some files, at the latest when the threads that read them have finished. */
  synchronized void drop(Predicate<Path> which) {
    Iterator<Map.Entry<Path, Entry>> each = entries.entrySet().iterator();
    while (each.hasNext()) {
      Map.Entry<Path, Entry> entry = each.next();
      if (!which.test(entry.getKey())) continue;
      each.remove();
      discard(entry.getValue());
    }
  }

  synchronized int count() {
    return entries.size();
  }

  @Override
  public void close() {
    drop(file -> true);
  }
}
