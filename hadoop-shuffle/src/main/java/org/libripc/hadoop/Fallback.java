// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

/** Why an output was left to another path. Each has a counter of the job. */
enum Fallback {
  /** The reducer cannot open or read a file of its host; the NodeManager may be able to. */
  LOCAL_FILE("this task cannot read the file"),
  NO_SERVICE("no libripc shuffle answers there"),
  REFUSED("the request was refused"),
  NOT_THERE("the NodeManager has no such output"),
  FAILED("the transfer failed"),
  CHECKSUM("the bytes have a wrong checksum");

  final String text;

  Fallback(String text) {
    this.text = text;
  }

  String counter() {
    return "FALLBACK_" + name();
  }
}
