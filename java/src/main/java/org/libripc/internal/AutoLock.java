// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.util.concurrent.locks.ReentrantLock;

/**
 * A lock for try-with-resources. It replaces monitors around native calls: a virtual thread that
 * waits for a monitor keeps its carrier.
 */
public final class AutoLock extends ReentrantLock implements AutoCloseable {
  private static final long serialVersionUID = 1;

  /** Locks it until it is closed. */
  public AutoLock held() {
    lock();
    return this;
  }

  @Override
  public void close() {
    unlock();
  }
}
