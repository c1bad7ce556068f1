// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import org.libripc.internal.AutoLock;

/**
 * Memory that one long item may be received into. It is made once and posted as often as wanted:
 * {@link Service#post} or {@link Ripc#post}. While it is posted, its memory is the library's. The
 * application gets the memory back when it receives the message that used the window ({@link
 * Message#window}) or withdraws the window. It also gets it back when the service or context where
 * the window was posted is closed.
 */
@SuppressWarnings("try") // locks
public final class ReceiveWindow {
  private final WritableMemory memory;
  private final AutoLock lock = new AutoLock();
  // Guarded by the lock. Where it is posted: a Service or a Ripc.
  private Object owner;
  private long id;

  /**
   * A window over memory of the application: a direct buffer, from its position to its limit. A
   * buffer over a mapped file costs one more copy, in leased memory; if the file has become shorter
   * by then, the item is missing with {@link Status#CANCELLED}.
   */
  public ReceiveWindow(ByteBuffer direct) {
    memory = new WritableMemory(direct, "a window");
  }

  /**
   * A window over registered memory. The application still has to release the buffer, which is kept
   * while the window is posted.
   */
  public ReceiveWindow(RegisteredBuffer registered) {
    memory = new WritableMemory(registered, "a window");
  }

  /** A new view of all of it. */
  public ByteBuffer buffer() {
    return memory.buffer();
  }

  /** Its size in bytes. */
  public int size() {
    return memory.size();
  }

  /** Whether it is posted. */
  public boolean isPosted() {
    try (AutoLock held = lock.held()) {
      return owner != null;
    }
  }

  /** Marks the window as posted. Returns the address where native code writes. */
  long posting(RipcCore ripc, Object newOwner, long newId) {
    try (AutoLock held = lock.held()) {
      if (owner != null)
        throw new IllegalStateException("This window is posted already: withdraw it first.");
      memory.hold(ripc);
      owner = newOwner;
      id = newId;
      return memory.landing();
    }
  }

  /**
   * Called before the window is returned: native code has written {@code size} bytes. False if they
   * are lost.
   */
  boolean landed(long size) {
    try (AutoLock held = lock.held()) {
      return memory.landed(size);
    }
  }

  /** Gives the memory back to the application. */
  void returned() {
    try (AutoLock held = lock.held()) {
      owner = null;
      memory.letGo();
    }
  }

  long idAt(Object expected) {
    try (AutoLock held = lock.held()) {
      return owner == expected ? id : 0;
    }
  }
}
