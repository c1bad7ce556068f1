// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.IO;
import org.eclipse.jetty.util.IteratingNestedCallback;
import org.eclipse.jetty.util.TypeUtil;
import org.libripc.RegisteredBuffer;
import org.libripc.stream.StreamOptions;

/**
 * Writes a part of a file, in pieces of leased memory that are given away with the write.
 *
 * <p>Any thread, one at a time, as for every {@link org.eclipse.jetty.util.IteratingCallback}.
 */
final class FilePieces extends IteratingNestedCallback {
  /** Where the bytes come from. */
  private interface Reader {
    /** Reads some bytes from a position on; -1 if there are none. */
    int read(ByteBuffer to, long position) throws IOException;
  }

  // Large enough that the cost of a message matters little, and small enough that several fit into
  // a window.
  private static final int MOST_PIECE = 256 << 10;
  private static final int PIECES_OF_WINDOW = 4;

  private final Reader source;
  private final Closeable file; // null: no file to close
  private final RipcEndPoint endPoint;
  private final Content.Sink sink;
  private final boolean last;
  private final int pieceBytes;
  private long position;
  private long left;
  private boolean ended;
  private RegisteredBuffer piece; // the one being written

  private FilePieces(
      Reader source,
      Closeable file,
      RipcEndPoint endPoint,
      Content.Sink sink,
      boolean last,
      long position,
      long left,
      Callback callback) {
    super(callback);
    this.source = source;
    this.file = file;
    this.endPoint = endPoint;
    this.sink = sink;
    this.last = last;
    this.position = position;
    this.left = left;
    StreamOptions options = endPoint.stream().options();
    pieceBytes =
        Math.max(options.shortLimit(), Math.min(MOST_PIECE, options.window() / PIECES_OF_WINDOW));
  }

  /**
   * Writes the bytes of a file, as the end of the answer.
   *
   * @param length in bytes, from the offset on; -1: to the end of the file
   * @throws IOException if the file cannot be opened
   * @throws IndexOutOfBoundsException if the file has fewer bytes
   */
  static void write(
      Path path,
      RipcEndPoint endPoint,
      Content.Sink sink,
      long offset,
      long length,
      Callback callback)
      throws IOException {
    FileChannel file = FileChannel.open(path, StandardOpenOption.READ);
    try {
      long left = TypeUtil.checkOffsetLengthSize(offset, length, file.size());
      new FilePieces(file::read, file, endPoint, sink, true, offset, left, callback).iterate();
    } catch (Throwable problem) {
      IO.close(file);
      throw problem;
    }
  }

  /** Writes the bytes of a buffer, such as a mapped file. */
  static void write(
      ByteBuffer mapped,
      RipcEndPoint endPoint,
      Content.Sink sink,
      boolean last,
      Callback callback) {
    Reader reader =
        (to, from) -> {
          int count = Math.min(to.remaining(), mapped.limit() - (int) from);
          to.put(mapped.slice((int) from, count));
          return count;
        };
    int position = mapped.position();
    int left = mapped.remaining();
    new FilePieces(reader, null, endPoint, sink, last, position, left, callback).iterate();
  }

  @Override
  public InvocationType getInvocationType() {
    return InvocationType.NON_BLOCKING;
  }

  @Override
  protected Action process() throws IOException {
    if (ended) return Action.SUCCEEDED;
    piece = endPoint.getTransport().ripc().lease((int) Math.min(pieceBytes, left));
    ByteBuffer buffer = piece.buffer();
    while (buffer.hasRemaining() && !ended)
      ended = source.read(buffer, position + buffer.position()) < 0;
    buffer.flip();
    position += buffer.remaining();
    left -= buffer.remaining();
    ended |= left == 0;
    endPoint.stream().give(buffer);
    sink.write(ended && last, buffer, this);
    return Action.SCHEDULED;
  }

  @Override
  protected void onSuccess() {
    release();
  }

  @Override
  protected void onCompleteSuccess() {
    IO.close(file);
    super.onCompleteSuccess();
  }

  @Override
  protected void onFailure(Throwable cause) {
    IO.close(file);
    super.onFailure(cause);
  }

  @Override
  protected void onCompleteFailure(Throwable cause) {
    release();
    super.onCompleteFailure(cause);
  }

  private void release() {
    if (piece == null) return;
    endPoint.stream().give(null);
    piece.release();
    piece = null;
  }
}
