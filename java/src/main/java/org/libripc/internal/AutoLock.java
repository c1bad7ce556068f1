// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.util.concurrent.locks.ReentrantLock;

/**
 * A lock for try-with-resources. Around native calls there are no monitors: a virtual thread that
 * waits for one keeps its carrier.
 */
public final class AutoLock extends ReentrantLock implements AutoCloseable {
  private static final long serialVersionUID = 1;

  /** Until it is closed. */
  public AutoLock held() {
    lock();
    return this;
  }

  @Override
  public void close() {
    unlock();
  }
}
