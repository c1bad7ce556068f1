// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

/** What is known about a call that has ended. */
public enum CallOutcome {
  /** The handler ran and replied. */
  ANSWERED,
  /** No handler ran or will run: it is safe to call again. */
  DID_NOT_RUN,
  /** It is not known whether the handler ran. */
  MAY_HAVE_RUN;

  private static final CallOutcome[] VALUES = values();

  static CallOutcome of(int number) {
    return VALUES[number];
  }
}
