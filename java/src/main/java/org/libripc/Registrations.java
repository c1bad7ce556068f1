// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.NavigableMap;
import java.util.TreeMap;
import org.libripc.internal.AutoLock;

/**
 * The application's memory that is registered with a context. Any thread. The native calls are made
 * under its lock, and take no lock that native code holds while it calls Java.
 */
@SuppressWarnings("try") // locks
final class Registrations {
  /**
   * The ranges that start at one address. When a range ends, native code is told only the address,
   * and would end the shortest range. So they end together, when the last of them is unused.
   */
  private static final class Group {
    private final List<RegisteredRange> ranges = new ArrayList<>();
    private int used;
  }

  private final AutoLock lock = new AutoLock();
  private final RipcCore ripc;
  // Guarded by the lock.
  private final NavigableMap<Long, Group> byStart = new TreeMap<>();
  private boolean closed;
  // The longest range that was ever registered; 0: there was none, so no search is needed.
  private volatile long longest;

  Registrations(RipcCore ripc) {
    this.ripc = ripc;
  }

  /** Registers a direct buffer from its position to its limit. The range has one user. */
  RegisteredRange add(ByteBuffer direct) {
    ByteBuffer root = direct.slice();
    FileMemory.checkOpen(root);
    long address = ripc.binding().addressOf(root);
    RegisteredRange range = new RegisteredRange(this, address, root);
    range.lend();
    ripc.enter();
    try {
      try (AutoLock held = lock.held()) {
        if (closed) throw RipcCore.closed();
        RipcException.check(ripc.binding().memoryRegister(ripc.handle(), address, root.capacity()));
        Group group = byStart.computeIfAbsent(address, start -> new Group());
        group.ranges.add(range);
        ++group.used;
        longest = Math.max(longest, root.capacity());
      }
    } finally {
      ripc.guard().leave();
    }
    return range;
  }

  /** Called by the last user. */
  void unused(RegisteredRange range) {
    if (!ripc.guard().tryEnter()) return; // close() ends all that are left
    try {
      try (AutoLock held = lock.held()) {
        Group group = byStart.get(range.address);
        if (group == null || --group.used > 0) return;
        byStart.remove(range.address);
        end(group);
      }
    } finally {
      ripc.guard().leave();
    }
  }

  /** Ends all ranges of a group. The caller has entered the context. */
  private void end(Group group) {
    for (RegisteredRange range : group.ranges) {
      ripc.binding().memoryUnregister(ripc.handle(), range.address);
      range.ended();
    }
  }

  /**
   * Retains all ranges that overlap a message's memory, for as long as the message travels: it
   * would be cancelled if one of them ended.
   */
  void retainThoseOf(long address, long size, List<Object> held) {
    if (longest == 0) return;
    try (AutoLock locked = lock.held()) {
      for (Group group : byStart.subMap(address - longest, true, address + size, false).values()) {
        for (RegisteredRange range : group.ranges) {
          if (range.overlaps(address, size) && range.tryRetain()) held.add(range);
        }
      }
    }
  }

  /** Ends all ranges, even those in use. The caller has entered the context. */
  void close() {
    try (AutoLock held = lock.held()) {
      closed = true;
      byStart.values().forEach(this::end);
      byStart.clear();
    }
  }
}
