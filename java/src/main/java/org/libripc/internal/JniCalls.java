// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.nio.ByteBuffer;

/** The functions of libripc-jni.so besides {@link NativeCalls} and {@link LibC}. */
final class JniCalls {
  static final int TICKET = 0;
  static final int NOTIFICATION = 1;
  static final int VISITOR = 2;
  static final int WATCH = 3;

  private JniCalls() {}

  /**
   * Loads libripc.so and registers the methods of {@link NativeCalls} and {@link LibC}. Returns
   * null, or what is wrong.
   *
   * @param library its path in the encoding of file names, then a zero
   */
  static native byte[] open(byte[] library);

  /** The number of records written, or a status as a negative number. */
  static native int receiveBatch(
      long service, int flags, long timeout, long buffer, int size, int capacity);

  static native long addressOf(ByteBuffer direct);

  static native ByteBuffer view(long address, long size);

  static native int lastErrorNumber();

  /** The address of a function that calls {@link Upcalls}. */
  static native long upcall(int which);
}
