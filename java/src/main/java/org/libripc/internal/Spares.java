// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Supplier;

/**
 * Objects that are borrowed for one call and reused. A few are kept: one per thread would be too
 * many with virtual threads. Any thread.
 */
public final class Spares<T> {
  private static final int KEPT = 16; // a power of 2
  private static final int APART = 16; // keeps threads on different cache lines

  private final AtomicReferenceArray<T> kept = new AtomicReferenceArray<>(KEPT * APART);
  private final Supplier<T> maker;

  public Spares(Supplier<T> maker) {
    this.maker = maker;
  }

  // A thread mostly finds the object that it gave back.
  private static int place(int attempt) {
    return ((int) Thread.currentThread().getId() + attempt & KEPT - 1) * APART;
  }

  /** Takes an object, mostly a used one, until {@link #giveBack}. */
  public T take() {
    for (int attempt = 0; attempt < KEPT; ++attempt) {
      int place = place(attempt);
      T spare = kept.get(place) == null ? null : kept.getAndSet(place, null);
      if (spare != null) return spare;
    }
    return maker.get();
  }

  /** Gives it back; the caller no longer uses it. */
  public void giveBack(T spare) {
    for (int attempt = 0; attempt < KEPT; ++attempt) {
      int place = place(attempt);
      if (kept.get(place) == null) {
        kept.setRelease(place, spare); // two threads at once may lose one, which is cheaper
        return;
      }
    }
  }
}
