// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.util.ArrayList;
import java.util.List;
import org.libripc.internal.Chunk;

/**
 * Memory for records: the chunk in use, and others that messages may keep. One thread at a time.
 */
final class Chunks {
  private static final int MOST = 8;

  private final List<Chunk> all = new ArrayList<>();
  private Chunk current;

  /** A chunk of at least this size, with this much room behind its end. */
  Chunk withRoom(int size, int room) {
    if (current != null && current.isFree()) current.end = 0; // the memory that is in the cache
    if (current != null && current.size() >= size && current.size() - current.end >= room)
      return current;
    current = null;
    for (Chunk each : all) {
      if (each.isFree() && each.size() >= size) current = each;
    }
    if (current == null) {
      // Messages that are held for long keep their chunks, which need not be in the list.
      if (all.size() == MOST) all.remove(0);
      all.add(current = new Chunk(size));
    }
    current.end = 0;
    return current;
  }

  void clear() {
    all.clear();
    current = null;
  }
}
