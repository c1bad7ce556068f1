// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.WritableUtils;
import org.apache.hadoop.io.compress.CodecPool;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.Decompressor;
import org.apache.hadoop.mapred.IFile;
import org.apache.hadoop.mapred.IFileInputStream;
import org.apache.hadoop.mapreduce.CryptoUtils;

/**
 * The records of a map output, read where it lies through a window in the heap. All bytes go
 * through the checksum. A record is in the window as a whole: the key and the value point to it,
 * until the next key.
 */
final class PartReader<K, V> extends IFile.Reader<K, V> {
  private static final int LARGEST_RECORD = Integer.MAX_VALUE - 16; // the limit of an array

  private final Configuration conf;
  private final LocalOutput output;
  private final CompressionCodec codec;
  private final int windowBytes;
  private final long rawLength;
  private IFileInputStream checked; // null: not begun yet, or closed
  private InputStream in;
  private Decompressor decompressor;
  private byte[] window;
  private int next;
  private int end;
  private int valueLength;
  private boolean ended;

  /**
   * @param codec null: not compressed
   * @param windowBytes how much of the heap the window takes; a larger record takes more
   */
  PartReader(Configuration conf, LocalOutput output, CompressionCodec codec, int windowBytes)
      throws IOException {
    super(conf, null, output.length(), null, null);
    this.conf = conf;
    this.output = output;
    this.codec = codec;
    this.windowBytes = windowBytes;
    rawLength = output.raw() - CryptoUtils.cryptoPadding(conf);
  }

  private void begin() throws IOException {
    checked = output.openChecked(conf);
    in = checked;
    if (codec != null) {
      decompressor = CodecPool.getDecompressor(codec);
      in = codec.createInputStream(checked, decompressor);
    }
    window = new byte[(int) Math.min(windowBytes, Math.max(16, rawLength))];
  }

  /** Whether the window has this many bytes, after reading them if necessary. */
  private boolean has(int bytes) throws IOException {
    if (end - next >= bytes) return true;
    byte[] to = bytes > window.length ? new byte[bytes] : window;
    System.arraycopy(window, next, to, 0, end - next);
    window = to;
    end -= next;
    next = 0;
    while (end < bytes) {
      int got = read(window, end, window.length - end);
      if (got <= 0) return false;
      end += got;
    }
    return true;
  }

  private int read(byte[] to, int offset, int length) throws IOException {
    try {
      return in.read(to, offset, length);
    } catch (InternalError damaged) { // how codecs report damage
      throw new IOException(output.file() + " cannot be decompressed", damaged);
    }
  }

  /** Reads from the window, as {@link WritableUtils#readVInt} does. */
  private int number() throws IOException {
    int size = has(1) ? WritableUtils.decodeVIntSize(window[next]) : 1;
    if (!has(size)) throw new EOFException(output.file() + " ends without its end");
    byte first = window[next++];
    if (size == 1) return first;
    if (size > 5) throw new IOException(output.file() + " has a length that is none");
    int value = 0;
    for (int index = 1; index < size; ++index) value = value << 8 | window[next++] & 0xff;
    return WritableUtils.isNegativeVInt(first) ? ~value : value;
  }

  @Override
  public boolean nextRawKey(DataInputBuffer key) throws IOException {
    if (ended) return false;
    if (window == null) begin();
    if (rawLength == 0) return finish();
    int keyLength = number();
    valueLength = number();
    bytesRead += WritableUtils.getVIntSize(keyLength) + WritableUtils.getVIntSize(valueLength);
    if (keyLength == IFile.EOF_MARKER && valueLength == IFile.EOF_MARKER) return finish();
    long record = (long) keyLength + valueLength;
    if (keyLength < 0 || valueLength < 0 || record > rawLength - bytesRead)
      throw new IOException(output.file() + " has a record of a wrong length");
    if (record > LARGEST_RECORD || !has((int) record))
      throw new EOFException(output.file() + " ends within a record");
    key.reset(window, next, keyLength);
    next += keyLength;
    bytesRead += keyLength;
    return true;
  }

  @Override
  public void nextRawValue(DataInputBuffer value) {
    value.reset(window, next, valueLength);
    next += valueLength;
    bytesRead += valueLength;
    ++recNo;
  }

  /** Reads what is left, so that the checksum is checked. */
  private boolean finish() throws IOException {
    while (read(window, 0, window.length) > 0) {
      // compressed data may have an end of its own
    }
    ended = true;
    close();
    return false;
  }

  @Override
  public long getPosition() {
    return bytesRead;
  }

  @Override
  public long getLength() {
    return rawLength;
  }

  @Override
  public void close() throws IOException {
    IFileInputStream closed = checked;
    checked = null;
    // If the reader stops before the end, it does not want the rest, so nobody checks the checksum.
    if (closed != null && ended) closed.close();
    if (decompressor != null) {
      CodecPool.returnDecompressor(decompressor);
      decompressor = null;
    }
    in = null;
    output.close();
    // The last key and value point into the window until the merge goes on.
    if (ended) window = null;
  }
}
