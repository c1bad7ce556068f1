// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.Objects;
import java.util.function.Predicate;
import org.libripc.Peer;
import org.libripc.Service;
import org.libripc.ServiceBuilder;
import org.libripc.ServiceId;

/** Starts a {@link StreamService}. One thread. */
public final class StreamServiceBuilder {
  private static final int DEFAULT_MAX_STREAMS = 8192;

  StreamOptions options = StreamOptions.DEFAULT;
  StreamAcceptor acceptor;
  Predicate<ServiceId> access = client -> true;
  Predicate<Peer> peerAccess = peer -> true;
  int maxStreams = DEFAULT_MAX_STREAMS;
  boolean accepting = true;
  private final ServiceBuilder service;
  private StreamExecutor executor;

  StreamServiceBuilder(ServiceBuilder service) {
    this.service = Objects.requireNonNull(service);
  }

  /** How streams use memory and time. */
  public StreamServiceBuilder options(StreamOptions streams) {
    options = Objects.requireNonNull(streams);
    return this;
  }

  /** Threads and timers; the service starts its own daemon threads if this is not set. */
  public StreamServiceBuilder executor(StreamExecutor threads) {
    executor = threads;
    return this;
  }

  /** Takes the streams that others open; nobody may open streams if it is not set. */
  public StreamServiceBuilder acceptor(StreamAcceptor streams) {
    acceptor = streams;
    return this;
  }

  /**
   * Which services may open streams: called with the ID of each, in any thread. An ID is a name,
   * not a proof: it can distinguish clients that the context admits, but keeps out no attacker.
   */
  public StreamServiceBuilder access(Predicate<ServiceId> policy) {
    access = Objects.requireNonNull(policy);
    return this;
  }

  /**
   * Which peers may open streams: called with each peer's proven identity, in any thread. This
   * policy and that of {@link #access} must both return true.
   */
  public StreamServiceBuilder peerAccess(Predicate<Peer> policy) {
    peerAccess = Objects.requireNonNull(policy);
    return this;
  }

  /** The most streams at once; others cannot open more. 8192 if it is not set. */
  public StreamServiceBuilder maxStreams(int count) {
    if (count < 1) throw new IllegalArgumentException("at least one stream");
    maxStreams = count;
    return this;
  }

  /** Whether streams are accepted at first: {@link StreamService#setAccepting}. */
  public StreamServiceBuilder accepting(boolean on) {
    accepting = on;
    return this;
  }

  /** Registers the service and begins to receive. Throws the same as {@link ServiceBuilder}. */
  public StreamService start() {
    CachedThreads own = executor == null ? new CachedThreads() : null;
    Service registered = null;
    try {
      registered =
          service
              .queueBytes(options.queueBytes())
              .maxMessages(options.messages(maxStreams))
              .register();
      StreamExecutor threads = own != null ? own : executor;
      return new StreamService(new Multiplexer(registered, this, threads), own);
    } catch (Throwable problem) {
      if (registered != null) registered.close();
      if (own != null) own.close();
      throw problem;
    }
  }
}
