// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Messages of a connection without bytes that wait for room, in their order.
 *
 * <p>Guarded by its {@link Outbound}.
 */
final class Controls {
  /** One of them. */
  record Control(Frame.Type type, int flags, Frame.Reason reason) {
    boolean isOpening() {
      return type == Frame.Type.OPEN || type == Frame.Type.ACCEPT;
    }

    /** Whether it has a place in the order of the stream. */
    boolean isOrdered() {
      return type == Frame.Type.DATA || type == Frame.Type.CLOSE;
    }
  }

  private final Deque<Control> waiting = new ArrayDeque<>();

  void add(Frame.Type type, int flags, Frame.Reason reason) {
    waiting.add(new Control(type, flags, reason));
  }

  /** Null if there is none. */
  Control next() {
    return waiting.peek();
  }

  /** The next one is on its way. */
  void sent() {
    waiting.remove();
  }

  boolean have(Frame.Type type) {
    return waiting.stream().anyMatch(each -> each.type == type);
  }

  void clear() {
    waiting.clear();
  }

  int size() {
    return waiting.size();
  }
}
