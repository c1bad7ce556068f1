// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.util.List;
import org.eclipse.jetty.util.thread.Invocable;

/** A task that does not block, after which others are to be run. */
interface Step extends Invocable.Task {
  /** Those, after the run; the calling thread goes on with the first one if it can. */
  List<Runnable> following();

  @Override
  default InvocationType getInvocationType() {
    return InvocationType.NON_BLOCKING;
  }
}
