// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import org.apache.hadoop.mapreduce.TaskAttemptID;

/** Why outputs of a host, or one of them, do not come by a path. */
final class ShuffleFailure extends IOException {
  private static final long serialVersionUID = 1;

  private final Fallback why;
  private final transient TaskAttemptID output;

  ShuffleFailure(Fallback why, String detail) {
    this(why, detail, null);
  }

  ShuffleFailure(Fallback why, String detail, TaskAttemptID output) {
    super(detail);
    this.why = why;
    this.output = output;
  }

  Fallback why() {
    return why;
  }

  /** The one output that the failure is about; null if it is about the host. */
  TaskAttemptID output() {
    return output;
  }
}
