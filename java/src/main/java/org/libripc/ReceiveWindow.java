// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import org.libripc.internal.AutoLock;

/**
 * Memory that one long item may be received into. It is made once and posted as often as wanted:
 * {@link Service#post} or {@link Ripc#post}. While it is posted, its memory is the library's. The
 * application has it back when the message that used it was received ({@link Message#window}) or
 * the window was withdrawn. It also has it back when the service or context that it was posted at
 * was closed.
 */
@SuppressWarnings("try") // locks
public final class ReceiveWindow {
  private final WritableMemory memory;
  private final AutoLock lock = new AutoLock();
  // Guarded by the lock; what it is posted at: a Service or a Ripc.
  private Object owner;
  private long id;

  /**
   * Of memory of the application: a direct buffer, from its position to its limit. One over a
   * mapped file takes a copy more, in leased memory; if the file is shorter by then, the item is
   * missing with {@link Status#CANCELLED}.
   */
  public ReceiveWindow(ByteBuffer direct) {
    memory = new WritableMemory(direct, "a window");
  }

  /**
   * Of registered memory. The buffer stays the application's to release, and is kept while the
   * window is posted.
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

  /** Returns where native code writes. */
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

  /** Before it is returned: native code has written so many bytes. False if they are lost. */
  boolean landed(long size) {
    try (AutoLock held = lock.held()) {
      return memory.landed(size);
    }
  }

  /** It is the application's again. */
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
