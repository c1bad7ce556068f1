// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.util.Locale;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;

/**
 * The paths on which the MAC of an answer covers the bytes of map outputs. Computing it takes each
 * side half a second for each GB. So the MAC leaves the bytes out where libripc's own protection
 * covers them: the kernel's on one host, and the cluster key's over sockets.
 */
enum DataSeal {
  NEVER,
  /** Where nothing else protects them: over RDMA. */
  RDMA,
  /** Also over sockets: the network is open, so sockets have no key. */
  NETWORK,
  ALWAYS;

  /**
   * As the configuration says; by default, where nothing else protects the bytes.
   *
   * @param environment of this process, which says whether libripc has a key
   */
  static DataSeal of(Configuration conf, Map<String, String> environment) {
    String wanted = conf.getTrimmed(Keys.DATA_MAC, "auto").toLowerCase(Locale.ROOT);
    switch (wanted) {
      case "auto":
        return "open".equals(environment.get("RIPC_NETWORK")) ? NETWORK : RDMA;
      case "always":
        return ALWAYS;
      case "never":
        return NEVER;
      default:
        throw new IllegalArgumentException(
            Keys.DATA_MAC + " is '" + wanted + "': use auto, always or never");
    }
  }

  boolean covers(ShufflePath path) {
    switch (path) {
      case RDMA:
        return this != NEVER;
      case SOCKET:
        return this == NETWORK || this == ALWAYS;
      default:
        return this == ALWAYS;
    }
  }
}
