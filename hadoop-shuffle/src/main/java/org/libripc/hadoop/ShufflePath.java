// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

/** How bytes of a map output come to a reducer. Each has a counter of the job. */
enum ShufflePath {
  /** The reducer reads the file. */
  LOCAL,
  SHM,
  SOCKET,
  RDMA,
  /** Hadoop's own shuffle. */
  HTTP;

  /** By the name of libripc's transport. */
  static ShufflePath of(String transport) {
    switch (transport) {
      case "shm":
        return SHM;
      case "verbs":
        return RDMA;
      default:
        return SOCKET;
    }
  }

  String counter() {
    return name() + "_BYTES";
  }
}
