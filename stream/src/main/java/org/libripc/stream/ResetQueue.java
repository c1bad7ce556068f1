// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.libripc.ItemKind;
import org.libripc.Outgoing;
import org.libripc.RipcException;
import org.libripc.ServiceId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Answers for connections that do not exist. Sending one may have to find the peer, which takes
 * time if the peer has died. So they are sent one after the other, outside the receiving thread. If
 * there are too many, some are not sent: a peer that sends again gets another answer.
 *
 * <p>Any thread.
 */
final class ResetQueue {
  private static final Logger LOG = LoggerFactory.getLogger(ResetQueue.class);
  private static final int MOST = 1024;

  private record Key(ServiceId peer, int number) {}

  private final Multiplexer multiplexer;
  private final Map<Key, Frame.Reason> waiting = new LinkedHashMap<>(); // guarded by this
  private boolean sending; // guarded by this

  ResetQueue(Multiplexer multiplexer) {
    this.multiplexer = multiplexer;
  }

  void add(ServiceId peer, int number, Frame.Reason reason) {
    synchronized (this) {
      if (waiting.size() >= MOST) return;
      waiting.putIfAbsent(new Key(peer, number), reason);
      if (sending) return;
      sending = true;
    }
    try {
      multiplexer.execute(this::sendAll);
    } catch (Throwable problem) {
      synchronized (this) {
        sending = false; // the next answer takes this one with it
      }
      throw problem;
    }
  }

  private void sendAll() {
    for (Map.Entry<Key, Frame.Reason> next = next(); next != null; next = next()) {
      Key key = next.getKey();
      try {
        send(key, next.getValue());
      } catch (RipcException gone) {
        LOG.debug("{} is gone", key.peer, gone);
        drop(key.peer);
      } catch (Throwable problem) { // such as a lack of memory: the others get theirs
        LOG.warn("{} gets no answer", key.peer, problem);
      }
    }
  }

  private void send(Key key, Frame.Reason reason) {
    Frame frame = new Frame(Frame.Type.RESET, Frame.FILLER, reason, 0, 0, 0);
    Outgoing message =
        multiplexer.messages.take().tag(key.number).add(frame.encode(), ItemKind.SHORT);
    try {
      multiplexer.service.trySend(key.peer, message);
    } finally {
      multiplexer.messages.giveBack(message.clear());
    }
  }

  private synchronized Map.Entry<Key, Frame.Reason> next() {
    Iterator<Map.Entry<Key, Frame.Reason>> entries = waiting.entrySet().iterator();
    sending = entries.hasNext();
    if (!sending) return null;
    Map.Entry<Key, Frame.Reason> first = Map.Entry.copyOf(entries.next());
    entries.remove();
    return first;
  }

  private synchronized void drop(ServiceId peer) {
    waiting.keySet().removeIf(key -> key.peer.equals(peer));
  }
}
