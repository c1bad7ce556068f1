// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

/** Gets the end of a call: {@link Rpc#callThen}. */
@FunctionalInterface
public interface CallHandler {
  /**
   * Runs once, in the thread that runs the endpoint, or in the one that closes it. It must not wait
   * for other calls. Exceptions go to the thread's uncaught exception handler.
   *
   * @param result valid until this returns, as the object is reused; {@link CallResult#keep} makes
   *     one that lasts
   */
  void ended(CallResult result);
}
