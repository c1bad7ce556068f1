// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/**
 * How stream connections use memory and time. Immutable; start with {@link #DEFAULT} and use the
 * {@code with...} methods.
 *
 * @param window bytes that the other side of a connection may send ahead of the reader, at least
 *     4096
 * @param shortLimit up to this many bytes travel in a message, copied twice, at least 1024
 * @param copyLimit up to this many bytes of a larger write are copied into separate memory, so that
 *     the writer need not wait until the other side has taken them, at least 0
 * @param returnBytes the size of the return buffer that each connection of a client offers to its
 *     server, which then writes into it instead of waiting until the client fetches; 0: none
 * @param spinNanos how long the receiving thread polls for the next message before it sleeps, while
 *     polling mostly finds one; over shared memory only, and not longer than the context spins
 * @param lingerMillis the longest time that a stop waits until written bytes are taken; less if
 *     none are taken for a quarter of a second
 */
public record StreamOptions(
    int window, int shortLimit, int copyLimit, int returnBytes, long spinNanos, long lingerMillis) {
  // With one processor, a spinning thread takes it from the thread that it waits for.
  private static final int PROCESSORS_TO_SPIN = 2;

  // How many messages of the short limit find room. All connections between two processes share one
  // queue: a writer that finds it full has to be woken when there is room.
  private static final int QUEUED = 64;

  /**
   * Options that suit most programs. They spin for 50 us if there are at least two processors, else
   * not.
   */
  public static final StreamOptions DEFAULT =
      new StreamOptions(
          1 << 20,
          16 << 10,
          256 << 10,
          0,
          Runtime.getRuntime().availableProcessors() >= PROCESSORS_TO_SPIN ? 50_000 : 0,
          5_000);

  /** Checks the ranges. */
  public StreamOptions {
    if (window < 4096) throw new IllegalArgumentException("the window is less than 4096 bytes");
    if (shortLimit < 1024)
      throw new IllegalArgumentException("the short limit is less than 1024 bytes");
    if (copyLimit < 0 || returnBytes < 0 || spinNanos < 0 || lingerMillis < 0)
      throw new IllegalArgumentException("a limit is negative");
  }

  /** With another window. */
  public StreamOptions withWindow(int bytes) {
    return new StreamOptions(bytes, shortLimit, copyLimit, returnBytes, spinNanos, lingerMillis);
  }

  /** With another limit for short messages. */
  public StreamOptions withShortLimit(int bytes) {
    return new StreamOptions(window, bytes, copyLimit, returnBytes, spinNanos, lingerMillis);
  }

  /** With another limit for copies. */
  public StreamOptions withCopyLimit(int bytes) {
    return new StreamOptions(window, shortLimit, bytes, returnBytes, spinNanos, lingerMillis);
  }

  /** With another size of the return buffer. */
  public StreamOptions withReturnBytes(int bytes) {
    return new StreamOptions(window, shortLimit, copyLimit, bytes, spinNanos, lingerMillis);
  }

  /** With another polling time before the receiving thread sleeps. */
  public StreamOptions withSpinNanos(long nanos) {
    return new StreamOptions(window, shortLimit, copyLimit, returnBytes, nanos, lingerMillis);
  }

  /** With another longest wait for a stop. */
  public StreamOptions withLingerMillis(long millis) {
    return new StreamOptions(window, shortLimit, copyLimit, returnBytes, spinNanos, millis);
  }

  /** How many messages a service with this many connections may hold. */
  int messages(int connections) {
    return (int) Math.min(Integer.MAX_VALUE, (connections + 1L) * Inbound.mostLent(window));
  }

  /** The bytes that a service's queue needs for messages of the short limit. */
  int queueBytes() {
    long wanted = Math.min(Math.max(8192, (long) QUEUED * shortLimit), 64 << 20);
    return Integer.highestOneBit((int) wanted - 1) << 1;
  }
}
