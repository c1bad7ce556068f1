// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.Charset;

/** The binding through libripc-jni.so, which needs nothing else. */
final class JniBinding implements NativeBinding {
  /**
   * Call it after libripc-jni.so was loaded.
   *
   * @throws UnsatisfiedLinkError if libripc.so does not load
   */
  JniBinding(String library) {
    Charset names = Charset.forName(System.getProperty("sun.jnu.encoding"));
    byte[] problem = JniCalls.open((library + '\0').getBytes(names));
    if (problem != null) throw new UnsatisfiedLinkError(new String(problem, names));
  }

  @Override
  public String name() {
    return "jni";
  }

  @Override
  public int receiveBatch(
      long service, int flags, long timeout, long buffer, int size, int capacity) {
    return JniCalls.receiveBatch(service, flags, timeout, buffer, size, capacity);
  }

  @Override
  public long addressOf(ByteBuffer direct) {
    return JniCalls.addressOf(direct);
  }

  @Override
  public ByteBuffer view(long address, long size) {
    return JniCalls.view(address, size).order(ByteOrder.nativeOrder());
  }

  @Override
  public int lastErrorNumber() {
    return JniCalls.lastErrorNumber();
  }

  @Override
  public long ticketFunction() {
    return JniCalls.upcall(JniCalls.TICKET);
  }

  @Override
  public long notificationFunction() {
    return JniCalls.upcall(JniCalls.NOTIFICATION);
  }

  @Override
  public long watchFunction() {
    return JniCalls.upcall(JniCalls.WATCH);
  }

  @Override
  public long visitorFunction() {
    return JniCalls.upcall(JniCalls.VISITOR);
  }
}
