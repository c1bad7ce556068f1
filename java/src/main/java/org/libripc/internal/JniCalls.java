// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.nio.ByteBuffer;

/** java/src/main/native/ripc_jni.c. */
final class JniCalls {
  /** The functions that it calls, in its order. */
  static final String[] FUNCTIONS = {
    "ripc_send", "ripc_send_many", "ripc_receive_records", "ripc_message_release"
  };

  private JniCalls() {}

  static native int initialize(long[] functions);

  static native int send(long service, long to, long items, int count, long options, long ticket);

  static native int sendMany(long service, long to, long messages, int count, long sent);

  static native int receiveBatch(
      long service, int flags, long timeout, long buffer, int size, int capacity);

  static native void releaseMessage(long message);

  static native long addressOf(ByteBuffer direct);
}
