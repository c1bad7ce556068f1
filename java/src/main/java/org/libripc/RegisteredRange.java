// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;

/** Memory of the application that is registered with a context, kept reachable until it is not. */
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
    // It was the application's before.
  }

  @Override
  void abandon() {
    // Nobody else is given it.
  }

  @Override
  void unused() {
    registrations.unused(this);
  }

  @Override
  boolean isKept() {
    return registered;
  }

  /** Native code does not know it any more. */
  void ended() {
    registered = false;
  }

  boolean overlaps(long start, long size) {
    return start < address + capacity && address < start + size;
  }
}
