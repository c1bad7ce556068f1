// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.net.SocketAddress;
import java.util.Objects;
import org.libripc.ServiceId;

/**
 * One end of a stream connection: the service and, at a client, the number of the connection.
 * Immutable; addresses of the same end are {@link #equals}.
 */
public final class RipcAddress extends SocketAddress {
  private static final long serialVersionUID = 1;

  /** The 64 bits of the service's ID. */
  private final long service;

  /** 0 at a server. */
  private final int connection;

  RipcAddress(ServiceId service, int connection) {
    this.service = service.value();
    this.connection = connection;
  }

  /** The service. */
  public ServiceId service() {
    return ServiceId.of(service);
  }

  /** The number that the client has given the connection; 0 for the address of a server. */
  public int connection() {
    return connection;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RipcAddress
        && ((RipcAddress) other).service == service
        && ((RipcAddress) other).connection == connection;
  }

  @Override
  public int hashCode() {
    return Objects.hash(service, connection);
  }

  /**
   * "ripc-" and the ID; at a client, also "-" and the number. It looks like the name of a host,
   * because Jetty takes it for one when a request names no host.
   */
  @Override
  public String toString() {
    String host = "ripc-" + Long.toHexString(service);
    return connection == 0 ? host : host + "-" + Integer.toUnsignedString(connection);
  }
}
