// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import org.libripc.Message;
import org.libripc.Outgoing;
import org.libripc.ServiceId;
import org.libripc.Status;
import org.libripc.Ticket;

/**
 * An incoming call. Every call of a method after its end throws {@link IllegalStateException}.
 * Until it is kept, it belongs to the thread that runs the endpoint.
 */
public interface RpcRequest {
  /** The arguments. */
  Message arguments();

  ServiceId source();

  int method();

  /** In nanoseconds; 0 if nobody waits any longer. */
  long timeLeft();

  /** Answers the request and so ends it. */
  Ticket reply(int code, Outgoing answer);

  /**
   * Ends it without an answer. False if it has ended.
   *
   * @param ran whether the handler may have done anything
   */
  boolean end(Status status, boolean ran);

  boolean isEnded();

  /** Moves the request into an object that lasts, for any thread; this one has then ended. */
  RpcRequest keep();
}
