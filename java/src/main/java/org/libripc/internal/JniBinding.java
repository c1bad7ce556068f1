// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;

/** The calls of every message by JNI, the others by JNA. */
final class JniBinding extends JnaBinding {
  /** After libripc-jni.so was loaded. */
  JniBinding(NativeLibrary library) {
    super(library);
    long[] functions = new long[JniCalls.FUNCTIONS.length];
    for (int index = 0; index < functions.length; ++index) {
      functions[index] = Pointer.nativeValue(library.getFunction(JniCalls.FUNCTIONS[index]));
    }
    if (JniCalls.initialize(functions) != 0) {
      throw new UnsatisfiedLinkError(
          "libripc-jni.so is of another version than the classes: use the one of this jar");
    }
  }

  @Override
  public String name() {
    return "jni";
  }

  @Override
  public int send(long service, long to, long items, int count, long options, long ticket) {
    return JniCalls.send(service, to, items, count, options, ticket);
  }

  @Override
  public int sendMany(long service, long to, long messages, int count, long sent) {
    return JniCalls.sendMany(service, to, messages, count, sent);
  }

  @Override
  public int receiveBatch(
      long service, int flags, long timeout, long buffer, int size, int capacity) {
    return JniCalls.receiveBatch(service, flags, timeout, buffer, size, capacity);
  }

  @Override
  public void releaseMessage(long message) {
    JniCalls.releaseMessage(message);
  }

  @Override
  public long addressOf(ByteBuffer direct) {
    return JniCalls.addressOf(direct);
  }
}
