// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.libripc.internal.Layout.Rail;

/** A rail is read from where the native library writes it. */
class RailInfoTest {
  @Test
  void eachFieldIsReadFromItsPlace() {
    ByteBuffer from = ByteBuffer.allocate(Rail.BYTES).order(ByteOrder.nativeOrder());
    from.put(Rail.DEVICE, "eth0".getBytes(StandardCharsets.UTF_8));
    from.put(Rail.LOCAL, "10.0.0.1".getBytes(StandardCharsets.UTF_8));
    from.put(Rail.PEER, "10.0.0.2".getBytes(StandardCharsets.UTF_8));
    from.putLong(Rail.BYTES_SENT, 1);
    from.putLong(Rail.BYTES_RECEIVED, 2);
    from.putLong(Rail.RATE, 3);
    from.putInt(Rail.SPARE, 4);
    from.putInt(Rail.CONNECTIONS, 5);
    assertEquals(new RailInfo("eth0", "10.0.0.1", "10.0.0.2", 1, 2, 3, 4, 5), RailInfo.read(from));
  }
}
