// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.concurrent.locks.ReentrantLock;

/**
 * A lock for try-with-resources. Around native calls there are no monitors: a virtual thread that
 * waits for one keeps its carrier.
 */
final class AutoLock extends ReentrantLock implements AutoCloseable {
  private static final long serialVersionUID = 1;

  /** Until it is closed. */
  AutoLock held() {
    lock();
    return this;
  }

  @Override
  public void close() {
    unlock();
  }
}
