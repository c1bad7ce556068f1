// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.task.reduce.MapOutput;

/**
 * Fetches outputs of one NodeManager in one visit. Outputs come in the order in which room was
 * reserved for them. One thread.
 */
final class RemoteFetch<K, V> {
  /** What the fetch needs of Hadoop's fetcher. */
  interface Target<K, V> {
    /** Reserves room for an output; null if there is none now. */
    MapOutput<K, V> reserve(TaskAttemptID map, Wire.Size size) throws IOException;

    /** Fills the output from a stream that has its bytes and no others. */
    void fill(TaskAttemptID map, MapOutput<K, V> output, Wire.Size size, InputStream in)
        throws IOException;

    /** Called when one output cannot be fetched this way. */
    void failed(TaskAttemptID map, ShuffleFailure why);
  }

  private record Reserved<K, V>(TaskAttemptID map, Wire.Size size, MapOutput<K, V> output) {}

  private final RemoteShuffle shuffle;
  private final RemoteHost host;
  private final int reduce;
  private final Target<K, V> target;
  private final Deque<Reserved<K, V>> reserved = new ArrayDeque<>();
  private Deque<TaskAttemptID> maps;
  private Deque<Wire.Size> sizes;
  private boolean waits;

  RemoteFetch(RemoteShuffle shuffle, RemoteHost host, int reduce, Target<K, V> target) {
    this.shuffle = shuffle;
    this.host = host;
    this.reduce = reduce;
    this.target = target;
  }

  /**
   * Fetches as much as there is room for. Outputs that have come belong to the target.
   *
   * @return whether the rest waits for room
   * @throws ShuffleFailure if the host cannot be reached this way, or goes away
   */
  boolean fetch(Collection<TaskAttemptID> wanted) throws IOException, InterruptedException {
    List<String> attempts = new ArrayList<>();
    for (TaskAttemptID map : wanted) attempts.add(map.toString());
    maps = new ArrayDeque<>(wanted);
    sizes = new ArrayDeque<>(host.sizes(reduce, attempts));
    try (PieceStream pieces = new PieceStream(shuffle, host, reduce, this::next)) {
      pieces.ask();
      while (!reserved.isEmpty()) take(pieces);
    } finally {
      reserved.forEach(each -> each.output.abort());
    }
    return waits;
  }

  /** For the stream: the next output to ask for, with room reserved. */
  private PieceStream.Wanted next() throws IOException {
    while (!waits && !maps.isEmpty()) {
      TaskAttemptID map = maps.peek();
      Wire.Size size = sizes.peek();
      if (size.isThere()) {
        MapOutput<K, V> output = target.reserve(map, size);
        if (output == null) {
          waits = true;
          break;
        }
        reserved.add(new Reserved<>(map, size, output));
      } else {
        target.failed(map, new ShuffleFailure(Fallback.NOT_THERE, "it has no " + map));
      }
      maps.remove();
      sizes.remove();
      if (size.isThere())
        return new PieceStream.Wanted(map.toString(), size.part(), size.directory());
    }
    return null;
  }

  private void take(PieceStream pieces) throws IOException {
    Reserved<K, V> first = reserved.peek();
    Part part = new Part(pieces, first.size.part());
    try {
      target.fill(first.map, first.output, first.size, part);
    } catch (IOException | InternalError problem) { // the latter from codecs
      if (part.failure != null) throw part.failure;
      if (problem instanceof ReducerFailure mine) throw mine;
      reserved.remove();
      first.output.abort();
      target.failed(first.map, new ShuffleFailure(Fallback.CHECKSUM, problem.toString()));
      part.skip();
      return;
    }
    reserved.remove();
    part.skip();
  }

  /** The bytes of one output, from the stream of all outputs, which a close leaves open. */
  private static final class Part extends InputStream {
    private final InputStream all;
    private long left;
    IOException failure; // of the transfer

    Part(InputStream all, long length) {
      this.all = all;
      left = length;
    }

    @Override
    public int read() throws IOException {
      byte[] single = new byte[1];
      return read(single, 0, 1) < 0 ? -1 : single[0] & 0xff;
    }

    @Override
    public int read(byte[] to, int offset, int length) throws IOException {
      if (left == 0) return -1;
      int got;
      try {
        got = all.read(to, offset, (int) Math.min(length, left));
        if (got < 0) throw new ShuffleFailure(Fallback.FAILED, "the pieces end too early");
      } catch (IOException problem) {
        failure = problem;
        throw problem;
      }
      left -= got;
      return got;
    }

    /** Skips what the reader did not want; the next output begins after it. */
    void skip() throws IOException {
      skip(left);
    }
  }
}
