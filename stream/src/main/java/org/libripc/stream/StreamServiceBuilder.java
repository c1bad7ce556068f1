// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.Objects;
import java.util.function.Predicate;
import org.libripc.Peer;
import org.libripc.Service;
import org.libripc.ServiceBuilder;
import org.libripc.ServiceId;

/** To start a {@link StreamService}. One thread. */
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

  /** Threads and timers; daemon threads of its own if it is not set. */
  public StreamServiceBuilder executor(StreamExecutor threads) {
    executor = threads;
    return this;
  }

  /** Takes the streams that others open; nobody may if it is not set. */
  public StreamServiceBuilder acceptor(StreamAcceptor streams) {
    acceptor = streams;
    return this;
  }

  /**
   * Which services may open streams: called with the ID of each, in any thread. An ID is a name and
   * no proof: it sorts clients that the context admits, and keeps out none that means harm.
   */
  public StreamServiceBuilder access(Predicate<ServiceId> policy) {
    access = Objects.requireNonNull(policy);
    return this;
  }

  /**
   * Which peers may open streams: called with who each is, as it was proven, in any thread. The
   * policies of {@link #access} and of this must both say yes.
   */
  public StreamServiceBuilder peerAccess(Predicate<Peer> policy) {
    peerAccess = Objects.requireNonNull(policy);
    return this;
  }

  /** The most streams at once: others open no more; 8192 if it is not set. */
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

  /** Registers the service and begins to receive. Throws what {@link ServiceBuilder} does. */
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
