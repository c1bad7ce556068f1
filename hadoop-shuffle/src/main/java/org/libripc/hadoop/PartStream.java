// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;

/** A part of an open file as a stream, which does not close it. One thread. */
final class PartStream extends InputStream {
  private final FileChannel file;
  private final byte[] single = new byte[1];
  private long position;
  private long left;

  PartStream(FileChannel file, long position, long length) {
    this.file = file;
    this.position = position;
    left = length;
  }

  @Override
  public int read() throws IOException {
    return read(single, 0, 1) < 0 ? -1 : single[0] & 0xff;
  }

  @Override
  public int read(byte[] to, int offset, int length) throws IOException {
    if (left == 0) return -1;
    int wanted = (int) Math.min(length, left);
    int got = read(ByteBuffer.wrap(to, offset, wanted));
    if (got < 0) return -1; // the file is too short; whoever checks the bytes says so
    position += got;
    left -= got;
    return got;
  }

  private int read(ByteBuffer to) throws IOException {
    try {
      return file.read(to, position);
    } catch (ClosedByInterruptException end) {
      throw end;
    } catch (IOException problem) { // not what a checksum or a codec says
      throw new ShuffleFailure(Fallback.LOCAL_FILE, problem.toString());
    }
  }
}
