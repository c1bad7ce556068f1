// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import java.util.concurrent.TimeUnit;
import org.libripc.internal.Layout;

/**
 * The options of a call. An object that is made once and reused makes no garbage; it is read while
 * the call begins. One thread at a time.
 */
public final class CallOptions {
  long timeout = Layout.DEFAULT_TIME;
  Request parent;
  boolean idempotent;

  /** The options of a call without options: the defaults. */
  public CallOptions() {}

  /**
   * How long the whole call may take: finding the service, waiting for a slot, running the handler
   * and returning the answer. 5 seconds if it is not set; no limit with {@link Long#MAX_VALUE}.
   * Returns this.
   */
  public CallOptions timeout(long time, TimeUnit unit) {
    timeout = time == Long.MAX_VALUE ? Layout.FOREVER : Math.max(0, unit.toNanos(time));
    return this;
  }

  /**
   * The request for which the call is made, which must not have ended: the call gets no more time
   * than the request has left. Null: none. Returns this.
   */
  public CallOptions parent(Request request) {
    parent = request;
    return this;
  }

  /**
   * Whether running twice does no harm. A call to a group then goes to another member even if it
   * may have run. Returns this.
   */
  public CallOptions idempotent(boolean on) {
    idempotent = on;
    return this;
  }
}
