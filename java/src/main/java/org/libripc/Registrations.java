// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.NavigableMap;
import java.util.TreeMap;
import org.libripc.internal.AutoLock;

/**
 * What of the application's memory is registered with a context. Any thread; the native calls are
 * made under its lock, and take none that is held where Java code is called.
 */
@SuppressWarnings("try") // locks
final class Registrations {
  /**
   * Those that start at one address. When one of them ends, native code is told only that address,
   * and would end the shortest. So they end together, when the last of them is unused.
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
  // Of all that were ever registered; 0: none was, and nobody needs to look.
  private volatile long longest;

  Registrations(RipcCore ripc) {
    this.ripc = ripc;
  }

  /** Registers a direct buffer from its position to its limit. It has one user. */
  RegisteredRange add(ByteBuffer direct) {
    ByteBuffer root = direct.slice();
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

  /** From the last user. */
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

  /** The context is entered. */
  private void end(Group group) {
    for (RegisteredRange range : group.ranges) {
      ripc.binding().memoryUnregister(ripc.handle(), range.address);
      range.ended();
    }
  }

  /**
   * Retains all that have a byte of a message's memory, for as long as it travels: it would be
   * cancelled if one of them ended.
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

  /** Ends them all, whoever uses them. The context is entered. */
  void close() {
    try (AutoLock held = lock.held()) {
      closed = true;
      byStart.values().forEach(this::end);
      byStart.clear();
    }
  }
}
