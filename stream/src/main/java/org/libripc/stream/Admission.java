// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.libripc.Message;
import org.libripc.Peer;
import org.libripc.RipcException;
import org.libripc.ServiceId;
import org.libripc.Status;
import org.libripc.internal.AutoLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Decides who may open streams, and how many. Covers the time from a client's OPEN to the ACCEPT,
 * or to a RESET that says why not. One thread finds the path to a client, for all streams that the
 * client opens meanwhile.
 *
 * <p>Any thread.
 */
@SuppressWarnings("try") // locks
final class Admission {
  private static final Logger LOG = LoggerFactory.getLogger(Admission.class);

  // Each takes a second, unless the context has another resolve timeout. A client that has just
  // started on a busy machine may be slow to answer.
  private static final int PATH_ATTEMPTS = 10;

  private record Opening(ByteStream stream, Message message) {}

  private final Multiplexer multiplexer;
  private final StreamAcceptor acceptor;
  private final Predicate<ServiceId> access;
  private final Predicate<Peer> peerAccess;
  private final int maxStreams;
  private final RateLimitedLog warnings = new RateLimitedLog(LOG);
  private final AutoLock lock = new AutoLock();
  // Guarded by the lock.
  private boolean accepting;
  private boolean ended;
  // The openings of clients to which a path is being found, or will be.
  private final Map<ServiceId, List<Opening>> openings = new HashMap<>();
  // Those clients whose openings wait until streams are accepted again, with the path to each.
  private final Map<ServiceId, Integer> waiting = new HashMap<>();

  /** If the acceptor is null, nobody may open streams. */
  Admission(
      Multiplexer multiplexer,
      StreamAcceptor acceptor,
      Predicate<ServiceId> access,
      Predicate<Peer> peerAccess,
      int maxStreams,
      boolean accepting) {
    this.multiplexer = multiplexer;
    this.acceptor = acceptor;
    this.access = access;
    this.peerAccess = peerAccess;
    this.maxStreams = maxStreams;
    this.accepting = accepting;
  }

  int waitingClients() {
    try (AutoLock l = lock.held()) {
      return waiting.size();
    }
  }

  /** While it is off, clients wait. */
  void accepting(boolean on) {
    Map<ServiceId, Integer> paths = Map.of();
    try (AutoLock l = lock.held()) {
      accepting = on;
      if (on) paths = takeWaiting();
    }
    paths.forEach(
        (client, path) ->
            multiplexer.execute(() -> take(client).forEach(each -> accept(each, path))));
  }

  /** Refuses all openings, waiting or new, from now on. */
  void refuseAll() {
    Map<ServiceId, Integer> paths;
    try (AutoLock l = lock.held()) {
      ended = true;
      paths = takeWaiting();
    }
    for (ServiceId client : paths.keySet()) {
      for (Opening each : take(client)) refuse(each, Frame.Reason.STOPPING, null);
    }
  }

  /**
   * The same before the end of all streams, which then informs those that wait.
   *
   * @return the messages to close after that
   */
  List<Message> end() {
    Map<ServiceId, Integer> paths;
    try (AutoLock l = lock.held()) {
      ended = true;
      paths = takeWaiting();
    }
    List<Message> messages = new ArrayList<>();
    paths.forEach(
        (client, path) -> {
          for (Opening each : take(client)) {
            each.stream.out().path(path);
            messages.add(each.message);
          }
        });
    return messages;
  }

  // With the lock.
  private Map<ServiceId, Integer> takeWaiting() {
    Map<ServiceId, Integer> taken = Map.copyOf(waiting);
    waiting.clear();
    return taken;
  }

  private List<Opening> take(ServiceId client) {
    try (AutoLock l = lock.held()) {
      return openings.remove(client);
    }
  }

  private boolean isEnded() {
    try (AutoLock l = lock.held()) {
      return ended;
    }
  }

  /** Whether the streams of a client wait, because none are accepted now. */
  private boolean waits(ServiceId client, int path) {
    try (AutoLock l = lock.held()) {
      if (accepting || ended) return false;
      waiting.put(client, path);
      return true;
    }
  }

  /**
   * Called when an OPEN has come, in the receiving thread. Takes over the message.
   *
   * @return the task to run for it; null: none
   */
  Runnable open(Message message, Frame frame) {
    ServiceId client = message.source();
    int number = message.tag();
    if (acceptor == null || isEnded() || multiplexer.streams().size() >= maxStreams) {
      message.close();
      Frame.Reason reason = isEnded() ? Frame.Reason.STOPPING : Frame.Reason.LIMIT;
      multiplexer.refuse(client, number, acceptor == null ? Frame.Reason.REFUSED : reason);
      return null;
    }
    ByteStream stream = new ByteStream(multiplexer, client, number, null, frame);
    stream.isFromPeer(message);
    multiplexer.add(stream); // it counts from now on
    Opening opening = new Opening(stream, message);
    try (AutoLock l = lock.held()) {
      List<Opening> others = openings.get(client);
      if (others != null) {
        others.add(opening);
        return null;
      }
      openings.put(client, new ArrayList<>(List.of(opening)));
    }
    return () -> accept(client);
  }

  private static boolean isSlow(RipcException problem) {
    return problem.status() == Status.TIMEOUT || problem.status() == Status.AGAIN;
  }

  private int pathTo(ServiceId client) {
    for (int attempt = 1; ; ++attempt) {
      try {
        return multiplexer.shortLimit(client);
      } catch (RipcException problem) {
        if (!isSlow(problem) || attempt == PATH_ATTEMPTS || isEnded()) throw problem;
      }
    }
  }

  private void accept(ServiceId client) {
    Integer path = null;
    Frame.Reason reason = Frame.Reason.ABORTED;
    Throwable problem = null;
    try {
      if (access.test(client)) {
        path = pathTo(client);
      } else {
        reason = Frame.Reason.REFUSED;
      }
    } catch (RipcException gone) {
      problem = gone;
      if (isSlow(gone)) {
        warnings.warn(client + " asked for a connection and does not answer", gone);
      } else {
        LOG.debug("{} is gone", client, gone);
      }
    } catch (Throwable failure) {
      problem = failure;
      warnings.warn("A connection of " + client + " cannot be accepted", failure);
    }
    if (path != null && waits(client, path)) return;
    for (Opening each : take(client)) {
      if (path != null) {
        accept(each, path);
      } else {
        refuse(each, reason, problem);
      }
    }
  }

  private void accept(Opening opening, int path) {
    ByteStream stream = opening.stream;
    if (!stream.isOpen()) {
      opening.message.close();
      return;
    }
    if (isEnded()) {
      refuse(opening, Frame.Reason.STOPPING, null);
      return;
    }
    stream.out().path(path);
    try {
      if (!peerAccess.test(stream.provenPeer())) {
        refuse(opening, Frame.Reason.REFUSED, null);
        return;
      }
    } catch (Throwable failure) {
      warnings.warn("A connection of " + stream.peer() + " cannot be accepted", failure);
      refuse(opening, Frame.Reason.ABORTED, failure);
      return;
    }
    stream.keep(opening.message);
    try {
      acceptor.opened(stream);
      stream.accept();
    } catch (Throwable problem) {
      warnings.warn("A connection of " + stream.peer() + " cannot be made", problem);
      multiplexer.refuse(stream.peer(), stream.number(), Frame.Reason.ABORTED);
      stream.fail(new IOException(problem));
      stream.stop();
    }
  }

  private void refuse(Opening opening, Frame.Reason reason, Throwable problem) {
    ByteStream stream = opening.stream;
    opening.message.close();
    if (!(problem instanceof RipcException))
      multiplexer.refuse(stream.peer(), stream.number(), reason);
    stream.fail(new IOException("The connection was not accepted", problem));
    stream.close();
  }
}
