// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/**
 * How stream connections use memory and time. Immutable; {@link #DEFAULT} and the {@code with...}
 * methods make one.
 *
 * @param window bytes that the other side of a connection may send ahead of the reader, from 4096
 * @param shortLimit up to so many bytes travel in a message, copied twice, from 1024
 * @param copyLimit up to so many bytes of a larger write are copied into memory of their own, so
 *     that the writer need not wait until the other side has taken them, from 0
 * @param returnBytes the size of the return buffer that each connection of a client offers to its
 *     server, which then writes into it instead of waiting until the client fetches; 0: none
 * @param spinNanos how long the receiving thread looks for the next message before it sleeps, while
 *     such looks mostly find one; over shared memory only, and not longer than the context spins
 * @param lingerMillis how long a stop waits at most for what was written to be taken; less if
 *     nothing of it is for a quarter of a second
 */
public record StreamOptions(
    int window, int shortLimit, int copyLimit, int returnBytes, long spinNanos, long lingerMillis) {
  // With one, a thread that spins takes the processor of the one it waits for.
  private static final int PROCESSORS_TO_SPIN = 2;

  // Messages of the short limit that find room. All connections between two processes have one
  // queue:
  // a writer that finds it full has to be woken when there is room.
  private static final int QUEUED = 64;

  /** Those that suit most programs. They spin for 50 us if there are two processors, else not. */
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

  /** With another time before the receiving thread sleeps. */
  public StreamOptions withSpinNanos(long nanos) {
    return new StreamOptions(window, shortLimit, copyLimit, returnBytes, nanos, lingerMillis);
  }

  /** With another time for a stop to wait. */
  public StreamOptions withLingerMillis(long millis) {
    return new StreamOptions(window, shortLimit, copyLimit, returnBytes, spinNanos, millis);
  }

  /** The messages that a service with so many connections may hold. */
  int messages(int connections) {
    return (int) Math.min(Integer.MAX_VALUE, (connections + 1L) * Inbound.mostLent(window));
  }

  /** What the queue of a service needs for messages of the short limit. */
  int queueBytes() {
    int wanted = Integer.highestOneBit(Math.max(8192, QUEUED * shortLimit) - 1) << 1;
    return Math.min(wanted, 64 << 20);
  }
}
