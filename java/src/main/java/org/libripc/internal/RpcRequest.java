// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import org.libripc.Message;
import org.libripc.Outgoing;
import org.libripc.ServiceId;
import org.libripc.Status;
import org.libripc.Ticket;

/**
 * A call that has come. What is called after its end throws {@link IllegalStateException}. Until it
 * is kept it belongs to the thread that runs, in which it was told.
 */
public interface RpcRequest {
  /** The arguments. */
  Message arguments();

  ServiceId source();

  int method();

  /** In nanoseconds; 0 if nobody waits any more. */
  long timeLeft();

  /** Answers it, which ends it. */
  Ticket reply(int code, Outgoing answer);

  /**
   * Ends it without an answer. False if it has ended.
   *
   * @param ran whether the handler may have done anything
   */
  boolean end(Status status, boolean ran);

  boolean isEnded();

  /** The same as one that lasts, for any thread; this one has ended. */
  RpcRequest keep();
}
