// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Memory that received messages are written to as records, one after the other. The receiving
 * thread fills it. It is reused when every message in it was given back, by any thread. If that
 * never happens, the garbage collector frees it.
 */
public final class Chunk {
  /** The memory. */
  public final NativeBlock block;

  /** The same, read only. */
  public final ByteBuffer readOnly;

  /** Where the next record goes; used only by the receiving thread. */
  public int end;

  private final AtomicInteger live = new AtomicInteger();

  public Chunk(int size) {
    block = new NativeBlock(size);
    readOnly = block.bytes.asReadOnlyBuffer();
  }

  public void retain(int messages) {
    live.addAndGet(messages);
  }

  public void release() {
    live.decrementAndGet();
  }

  public boolean isFree() {
    return live.get() == 0;
  }

  public int size() {
    return block.bytes.capacity();
  }
}
