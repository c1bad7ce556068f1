// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;

/**
 * Memory of the application that is registered with a context, and kept reachable until it no
 * longer is.
 */
final class RegisteredRange extends CountedMemory {
  private final Registrations registrations;
  private final ByteBuffer root;
  private volatile boolean registered = true;

  RegisteredRange(Registrations registrations, long address, ByteBuffer root) {
    super(address, root.capacity());
    this.registrations = registrations;
    this.root = root;
  }

  @Override
  ByteBuffer slice(int size) {
    return root.slice(0, size);
  }

  @Override
  void show() {
    // The memory was the application's before.
  }

  @Override
  void abandon() {
    // This memory is given to nobody else.
  }

  @Override
  void unused() {
    registrations.unused(this);
  }

  @Override
  boolean isKept() {
    return registered;
  }

  /** Called when native code no longer knows it. */
  void ended() {
    registered = false;
  }

  boolean overlaps(long start, long size) {
    return start < address + capacity && address < start + size;
  }
}
