// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.concurrent.TimeUnit;

/**
 * The windows of a connection: how far the local writer may go, and what was announced to the other
 * side about the local reader.
 *
 * <p>Guarded by its {@link Outbound}.
 */
final class Credit {
  // How often a reader reports its progress while it has not reached the end of a message. A writer
  // that receives nothing during its idle time-out gives the reader up. That time-out is a second
  // when its server stops.
  private static final long ANNOUNCE_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

  private final int ownWindow;
  private long sent;
  private long acknowledged;
  private int window; // the smaller one of the two: writers on both sides keep to it
  private long announced; // the consumption that the other side knows of
  private long announcedAt = System.nanoTime();

  /**
   * @param ownWindow how far the other side may be ahead of the reader here
   */
  Credit(int ownWindow) {
    this.ownWindow = ownWindow;
  }

  // ---- The local writer ----

  /**
   * The other side accepts this many bytes ahead of what it has read. They are copies that this
   * side keeps until they are read, so there are never more than this side's own window.
   */
  void open(int bytes) {
    window = Math.min(bytes, ownWindow);
  }

  boolean allows() {
    return sent - acknowledged < window;
  }

  void sent(long bytes) {
    sent += bytes + Frame.COST;
  }

  /** The value that the other side's consumption reaches when it has read all that was sent. */
  long end() {
    return sent;
  }

  /** Whether this is more than the other side has announced before. */
  boolean isNews(long bytes) {
    return bytes > acknowledged;
  }

  /** The other side reports that it has read this much; false if that is impossible. */
  boolean acknowledge(long bytes) {
    if (bytes > sent) return false;
    acknowledged = Math.max(acknowledged, bytes);
    return true;
  }

  // ---- The local reader ----

  int ownWindow() {
    return ownWindow;
  }

  /** Called when the value is sent to the other side. */
  void announced(long consumed) {
    announced = Math.max(announced, consumed);
    announcedAt = System.nanoTime();
  }

  boolean isAnnounced(long consumed) {
    return announced >= consumed;
  }

  /** Whether the other side may be waiting for a report of what was read, or for a sign of life. */
  boolean isOwed(Inbound.Progress reader) {
    long unannounced = reader.consumed() - announced;
    // A writer that waits until a message is read sends nothing before that.
    boolean mayWait = unannounced >= window / 2 && reader.waiting() < window && !reader.awaited();
    boolean slow =
        unannounced > 0
            && reader.waiting() > 0
            && System.nanoTime() - announcedAt >= ANNOUNCE_NANOS;
    return mayWait || slow;
  }

  @Override
  public String toString() {
    return String.format("sent=%d/%d+%d,announced=%d", sent, acknowledged, window, announced);
  }
}
