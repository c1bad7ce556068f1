// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.libripc.Outgoing;
import org.libripc.RegisteredBuffer;
import org.libripc.ReturnBuffer;
import org.libripc.ViewKind;
import org.libripc.rpc.CallResult;
import org.libripc.rpc.RpcCall;

/**
 * The bytes of several outputs of a host, one after the other, fetched in pieces, several of which
 * are under way at once. A piece holds a range of a large output, or several small ones of one
 * directory. One thread.
 */
final class PieceStream extends InputStream {
  /** An output, of which {@code asked} bytes are in pieces already. */
  static final class Wanted {
    final String attempt;
    final long length;
    final int directory;
    private long asked;

    Wanted(String attempt, long length, int directory) {
      this.attempt = attempt;
      this.length = length;
      this.directory = directory;
    }
  }

  /** Supplies the outputs to fetch. */
  interface Source {
    /** The next output, or null if there is none, or no room for it now. */
    Wanted next() throws IOException;
  }

  private static final class Piece {
    final RegisteredBuffer memory;
    final ReturnBuffer room;
    List<Wire.Range> ranges;
    int length;
    boolean isSealed;
    ByteBuffer request;
    RpcCall call;

    Piece(RegisteredBuffer memory) {
      this.memory = memory;
      room = new ReturnBuffer(memory);
    }
  }

  private final RemoteShuffle shuffle;
  private final RemoteHost host;
  private final int reduce;
  private final Source source;
  private final byte[] single = new byte[1];
  private final Deque<Piece> free = new ArrayDeque<>();
  private final Deque<Piece> underWay = new ArrayDeque<>();
  private Wanted planned; // the output that the next range is from
  private boolean exhausted;
  private Piece current;
  private ByteBuffer bytes = ByteBuffer.allocate(0); // what is left of the current piece

  PieceStream(RemoteShuffle shuffle, RemoteHost host, int reduce, Source source) {
    this.shuffle = shuffle;
    this.host = host;
    this.reduce = reduce;
    this.source = source;
  }

  // ---- Asking ----

  /** Asks for as many pieces as may be under way. */
  void ask() throws IOException, InterruptedException {
    while (!exhausted && underWay.size() < shuffle.pieces()) {
      List<Wire.Range> ranges = plan();
      if (ranges.isEmpty()) return;
      Piece piece = free.isEmpty() ? make() : free.remove();
      piece.ranges = ranges;
      piece.length = ranges.stream().mapToInt(Wire.Range::length).sum();
      underWay.add(piece);
      send(piece);
    }
  }

  private List<Wire.Range> plan() throws IOException {
    List<Wire.Range> ranges = new ArrayList<>();
    int room = shuffle.pieceBytes();
    int directory = -1;
    while (room > 0 && ranges.size() < Wire.MOST_OUTPUTS) {
      if (planned == null || planned.asked == planned.length) planned = source.next();
      if (planned == null) {
        exhausted = true;
        break;
      }
      if (planned.length == 0) continue; // whatever its directory is
      if (directory >= 0 && planned.directory != directory) break;
      directory = planned.directory;
      int length = (int) Math.min(room, planned.length - planned.asked);
      ranges.add(new Wire.Range(planned.attempt, planned.asked, length));
      planned.asked += length;
      room -= length;
    }
    return ranges;
  }

  private Piece make() throws IOException {
    return new Piece(shuffle.ripc().lease(shuffle.pieceBytes()));
  }

  private void send(Piece piece) throws IOException, InterruptedException {
    piece.isSealed = host.sealsBytes();
    Wire.Data wanted = new Wire.Data(host.head(reduce), piece.isSealed, piece.ranges);
    piece.request = Wire.encode(wanted, shuffle.key());
    piece.call = host.call(Wire.DATA, piece.request, new Outgoing().attach(piece.room));
  }

  // ---- Reading ----

  @Override
  public int read() throws IOException {
    return read(single, 0, 1) < 0 ? -1 : single[0] & 0xff;
  }

  @Override
  public int read(byte[] to, int offset, int length) throws IOException {
    if (length == 0) return 0;
    if (!bytes.hasRemaining() && !advance()) return -1;
    int count = Math.min(length, bytes.remaining());
    bytes.get(to, offset, count);
    return count;
  }

  /** Makes the next piece the current one. False if there is none. */
  private boolean advance() throws IOException {
    try {
      if (current != null) {
        free.add(current);
        current = null;
      }
      ask();
      if (underWay.isEmpty()) return false;
      Piece piece = underWay.peek();
      bytes = await(piece);
      underWay.remove();
      current = piece;
      return true;
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("the fetch was interrupted");
    }
  }

  private ByteBuffer await(Piece piece) throws IOException, InterruptedException {
    RemoteHost.Repeats repeats = new RemoteHost.Repeats();
    while (true) {
      try (CallResult result = RemoteHost.await(piece.call)) {
        if (!host.isToRepeat(result, repeats)) {
          if (result.isAnswered() && result.code() == Wire.NOT_THERE) throw lack(piece, result);
          RemoteHost.check(result);
          if (result.itemCount() != 2 || result.size(0) != piece.length)
            throw new ShuffleFailure(Fallback.FAILED, "an answer has a wrong size");
          ByteBuffer room = piece.memory.buffer().limit(piece.length);
          // The bytes are lent if they could not be written into the return buffer.
          if (result.kind(0) != ViewKind.RETURNED) result.copyTo(0, 0, room);
          room.position(0);
          host.check(piece.request, result.item(1), Wire.saysOf(piece.isSealed, room));
          return room;
        }
      }
      send(piece);
    }
  }

  /** The failure for an answer that says which output is not there. */
  private ShuffleFailure lack(Piece piece, CallResult result) throws IOException {
    ByteBuffer answer = host.authentic(piece.request, result);
    int index = answer.remaining() == 4 ? answer.getInt() : -1;
    if (index < 0 || index >= piece.ranges.size())
      return new ShuffleFailure(Fallback.FAILED, "an answer has a wrong content");
    String missing = piece.ranges.get(index).attempt();
    return new ShuffleFailure(
        Fallback.NOT_THERE, "it cannot read " + missing, TaskAttemptID.forName(missing));
  }

  /** Cancels the calls that are under way, and gives up the memory. */
  @Override
  public void close() {
    for (Piece piece : underWay) {
      if (piece.call != null && !piece.call.cancel(true)) piece.call.thenAccept(CallResult::close);
      piece.memory.close();
    }
    underWay.clear();
    if (current != null) current.memory.close();
    current = null;
    free.forEach(piece -> piece.memory.close());
    free.clear();
  }
}
