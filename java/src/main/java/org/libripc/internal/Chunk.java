// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;

/**
 * Memory that received messages are written to as records, one after the other. The receiving
 * thread fills it. It is reused when every message in it was given back, by any thread. If that
 * never happens, the garbage collector frees it.
 */
public final class Chunk {
  private static final VarHandle LIVE;

  static {
    try {
      LIVE = MethodHandles.lookup().findVarHandle(Chunk.class, "live", int.class);
    } catch (ReflectiveOperationException impossible) {
      throw new ExceptionInInitializerError(impossible);
    }
  }

  /** The memory. */
  public final NativeBlock block;

  /** The same, read only. */
  public final ByteBuffer readOnly;

  /** Where the next record goes; used only by the receiving thread. */
  public int end;

  @SuppressWarnings("unused") // through LIVE
  private volatile int live;

  public Chunk(int size) {
    block = new NativeBlock(size);
    readOnly = block.bytes.asReadOnlyBuffer();
  }

  public void retain(int messages) {
    LIVE.getAndAdd(this, messages);
  }

  public void release() {
    LIVE.getAndAdd(this, -1);
  }

  public boolean isFree() {
    return live == 0;
  }

  public int size() {
    return block.bytes.capacity();
  }
}
