// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicReference;
import org.libripc.internal.AutoLock;

/** The waiters for the ends of calls, by numbers that native code knows. Makes no garbage. */
@SuppressWarnings("try") // locks
final class CallSlots {
  /** The slot of one call. */
  static final class Slot {
    private final int index;
    private Slot next;
    Object caller;
    AtomicReference<ReturnBuffer[]> returns;

    private Slot(int index) {
      this.index = index;
    }

    /** Never 0. */
    long number() {
      return index + 1L;
    }
  }

  private final AutoLock lock = new AutoLock();
  private volatile Slot[] all = {};
  private Slot free;

  /** Takes a slot until {@link #giveBack}. Any thread. */
  Slot take(Object caller) {
    try (AutoLock held = lock.held()) {
      if (free == null) grow();
      Slot slot = free;
      free = slot.next;
      slot.caller = caller;
      return slot;
    }
  }

  private void grow() {
    Slot[] more = Arrays.copyOf(all, Math.max(16, 2 * all.length));
    for (int index = more.length - 1; index >= all.length; --index) {
      more[index] = new Slot(index);
      more[index].next = free;
      free = more[index];
    }
    all = more;
  }

  /** The slot with a number that native code has returned. */
  Slot find(long number) {
    return all[(int) (number - 1)];
  }

  /** Frees the slot: its call has ended, or never began. */
  void giveBack(Slot slot) {
    slot.caller = null;
    slot.returns = null;
    try (AutoLock held = lock.held()) {
      slot.next = free;
      free = slot;
    }
  }
}
