// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;

/** A failure of the reducer itself, whatever path the bytes take: it has no room on its disks. */
final class ReducerFailure extends IOException {
  private static final long serialVersionUID = 1;

  ReducerFailure(IOException reason) {
    super(reason);
  }
}
