// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.Collection;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.libripc.Service;
import org.libripc.ServiceBuilder;
import org.libripc.ServiceId;

/**
 * A service whose messages carry streams of bytes: it opens streams to other such services, and
 * accepts theirs if it has a {@link StreamAcceptor}. Any number of streams share the service, its
 * queue and its threads. docs/wire.md, "Stream connections", has the format.
 *
 * <p>Any thread. {@link #close} ends all streams and the service.
 */
public final class StreamService implements AutoCloseable {
  /** The most threads of the executor that wait for messages. */
  public static final int RECEIVING_THREADS = ReceivingThreads.MOST_WAITING;

  private final Multiplexer multiplexer;
  private final CachedThreads ownThreads; // null: the application provides them

  StreamService(Multiplexer multiplexer, CachedThreads ownThreads) {
    this.multiplexer = multiplexer;
    this.ownThreads = ownThreads;
  }

  /** A builder for a service with this name, number and other options. */
  public static StreamServiceBuilder builder(ServiceBuilder service) {
    return new StreamServiceBuilder(service);
  }

  /** The service. Only the streams use it: nobody else may receive from it, or close it. */
  public Service service() {
    return multiplexer.service;
  }

  /** The streams that are open or being opened: a view. */
  public Collection<ByteStream> streams() {
    return multiplexer.streams();
  }

  /**
   * Opens a stream to a service.
   *
   * @param timeout the time after which it gives up; 0: no limit
   * @return the stream, when the other side has accepted it. It fails with a {@code
   *     SocketTimeoutException} if that takes too long, else with a {@code ConnectException}
   */
  public CompletableFuture<ByteStream> connect(ServiceId server, long timeout, TimeUnit unit) {
    return new Connecting(multiplexer).start(server, unit.toNanos(timeout));
  }

  /**
   * While it is off, a client that opens a stream waits until it is on again, or until its connect
   * times out.
   */
  public void setAccepting(boolean on) {
    multiplexer.admission.accepting(on);
  }

  /** Refuses the clients that wait, and all that open a stream from now on. Open streams go on. */
  public void refuseAll() {
    multiplexer.admission.refuseAll();
  }

  /** How many services wait because no streams are accepted now. */
  public int waitingClients() {
    return multiplexer.admission.waitingClients();
  }

  /** How many bytes above {@code shortLimit} were copied to be sent ({@link StreamOptions}). */
  public long copiedBytes() {
    return multiplexer.copied.sum();
  }

  /** How many writes of peers came in a return buffer ({@link StreamOptions}). */
  public long returnedParts() {
    return multiplexer.returned.sum();
  }

  /**
   * Waits for an event on one of the streams, as {@link CompletableFuture#get(long, TimeUnit)}
   * does. Meanwhile the calling thread receives, if it is the only one in such a wait. So the peer
   * wakes it directly, and not a thread of the executor that then wakes it. Such a detour would
   * take most of the time of a short request.
   *
   * <p>Tasks of any stream of this service may run in the waiting thread: they must not wait for
   * anything that this thread does next. While one blocks, others may be delayed by some 20 ms. Any
   * number of threads may wait at once.
   *
   * @param answer completed by any thread, at any time
   */
  public <T> T await(CompletableFuture<T> answer, long time, TimeUnit unit)
      throws InterruptedException, ExecutionException, TimeoutException {
    return multiplexer.guests.await(answer, unit.toNanos(time));
  }

  /**
   * The same for a request that it sends itself, so that no answer comes too early for this thread
   * to receive it. Nobody receives during the sending, if that takes less than some 20 ms.
   *
   * @param sending sends; returns the future that will be completed
   */
  public <T> T await(Supplier<CompletableFuture<T>> sending, long time, TimeUnit unit)
      throws InterruptedException, ExecutionException, TimeoutException {
    return multiplexer.guests.await(sending, unit.toNanos(time));
  }

  /**
   * Ends all streams, and the service. Waits for written bytes as long as peers keep taking them,
   * up to {@code lingerMillis} ({@link StreamOptions}).
   */
  @Override
  public void close() {
    multiplexer.close();
    if (ownThreads != null) ownThreads.close();
  }

  /** Describes which threads receive. */
  @Override
  public String toString() {
    return multiplexer.threads.toString();
  }
}
