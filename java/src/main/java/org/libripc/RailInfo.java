// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import org.libripc.internal.Layout.Rail;
import org.libripc.internal.NativeBlock;

/**
 * One of the routes that long items take, or would take, to another host; from {@link Ripc#rails}.
 * On a side that mostly sends, the rates are TCP's estimates, which may be far too large if it
 * sends little. Immutable.
 *
 * @param device of this host: a network interface, or an RDMA device; "" if the interface is gone
 * @param local its address
 * @param peer the other host's address
 * @param bytesSent bytes sent, including overhead; over RDMA only what this side writes itself
 * @param bytesReceived bytes received, including overhead; over RDMA only what this side reads
 *     itself
 * @param rate bytes per second, as last measured; 0: not measured yet
 * @param spare 1: the rate is less than a quarter of the fastest rail's: a receiving side does not
 *     use it
 * @param connections connections that are open over it now
 */
public record RailInfo(
    String device,
    String local,
    String peer,
    long bytesSent,
    long bytesReceived,
    long rate,
    int spare,
    int connections) {

  static RailInfo read(ByteBuffer bytes) {
    return new RailInfo(
        NativeBlock.text(bytes, Rail.DEVICE, Rail.LOCAL - Rail.DEVICE),
        NativeBlock.text(bytes, Rail.LOCAL, Rail.PEER - Rail.LOCAL),
        NativeBlock.text(bytes, Rail.PEER, Rail.BYTES_SENT - Rail.PEER),
        bytes.getLong(Rail.BYTES_SENT),
        bytes.getLong(Rail.BYTES_RECEIVED),
        bytes.getLong(Rail.RATE),
        bytes.getInt(Rail.SPARE),
        bytes.getInt(Rail.CONNECTIONS));
  }
}
