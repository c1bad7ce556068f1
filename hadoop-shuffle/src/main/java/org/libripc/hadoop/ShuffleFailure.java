// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;

/** Why outputs of a host do not come over libripc. */
final class ShuffleFailure extends IOException {
  private static final long serialVersionUID = 1;

  private final Fallback why;

  ShuffleFailure(Fallback why, String detail) {
    super(detail);
    this.why = why;
  }

  Fallback why() {
    return why;
  }
}
