// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.util.concurrent.TimeUnit;

/**
 * The windows of a connection: how far its writer may go, and what was announced to the other side
 * of the reader here.
 *
 * <p>Guarded by its {@link Outbound}.
 */
final class Credit {
  // How often a reader tells how far it is, if it has not come to the end of a message. A writer
  // that hears nothing for its idle time-out gives the reader up. That time-out is a second when
  // its server stops.
  private static final long ANNOUNCE_NANOS = TimeUnit.MILLISECONDS.toNanos(250);

  private final int ownWindow;
  private long sent;
  private long acknowledged;
  private int window;
  private long announced; // what the other side knows to be consumed
  private long announcedAt = System.nanoTime();

  /**
   * @param ownWindow how far the other side may be ahead of the reader here
   */
  Credit(int ownWindow) {
    this.ownWindow = ownWindow;
  }

  // ---- Of the writer here ----

  /**
   * The other side takes up to so many bytes ahead of what it has read. Those are copies that are
   * kept here until then, so there are never more than the window of this side.
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

  /** What the other side will have read when it has read all that was sent. */
  long end() {
    return sent;
  }

  /** Whether this is more than the other side has announced before. */
  boolean isNews(long bytes) {
    return bytes > acknowledged;
  }

  /** The other side has read so much; false if it cannot have. */
  boolean acknowledge(long bytes) {
    if (bytes > sent) return false;
    acknowledged = Math.max(acknowledged, bytes);
    return true;
  }

  // ---- Of the reader here ----

  int ownWindow() {
    return ownWindow;
  }

  /** The other side hears it. */
  void announced(long consumed) {
    announced = Math.max(announced, consumed);
    announcedAt = System.nanoTime();
  }

  boolean isAnnounced(long consumed) {
    return announced >= consumed;
  }

  /** Whether the other side may be waiting for word of what was read, or for a sign of life. */
  boolean isOwed(Inbound.Progress reader) {
    long unannounced = reader.consumed() - announced;
    // A writer that waits until a message was read sends nothing before.
    boolean mayWait =
        unannounced >= ownWindow / 2 && reader.waiting() < ownWindow && !reader.awaited();
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
