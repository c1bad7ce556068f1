// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Supplier;

/**
 * Objects for the time of a call that are used again. A few are kept: one for each thread would be
 * too many where there are virtual ones. Any thread.
 */
public final class Spares<T> {
  private static final int KEPT = 16; // a power of 2
  private static final int APART = 16; // threads on different cache lines

  private final AtomicReferenceArray<T> kept = new AtomicReferenceArray<>(KEPT * APART);
  private final Supplier<T> maker;

  public Spares(Supplier<T> maker) {
    this.maker = maker;
  }

  // A thread mostly finds what it has given back.
  private static int place(int attempt) {
    return ((int) Thread.currentThread().getId() + attempt & KEPT - 1) * APART;
  }

  /** One, mostly used before, until {@link #giveBack}. */
  public T take() {
    for (int attempt = 0; attempt < KEPT; ++attempt) {
      int place = place(attempt);
      T spare = kept.get(place) == null ? null : kept.getAndSet(place, null);
      if (spare != null) return spare;
    }
    return maker.get();
  }

  /** Nobody else uses it any more. */
  public void giveBack(T spare) {
    for (int attempt = 0; attempt < KEPT; ++attempt) {
      int place = place(attempt);
      if (kept.get(place) == null) {
        kept.setRelease(place, spare); // of two at once the collector takes one: that is cheaper
        return;
      }
    }
  }
}
