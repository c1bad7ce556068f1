// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

/** Answers requests: {@link Rpc#on}. */
@FunctionalInterface
public interface RequestHandler {
  /**
   * Gets a request. An exception goes to the thread's uncaught exception handler, and drops the
   * request: with the status of a {@link org.libripc.RipcException}, else with {@link
   * org.libripc.Status#CANCELLED}.
   */
  void handle(Request request) throws Exception;
}
