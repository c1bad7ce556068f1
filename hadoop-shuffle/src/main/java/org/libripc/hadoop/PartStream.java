// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Path;

/** A part of a file as a stream, without a descriptor of its own. One thread. */
final class PartStream extends InputStream {
  private final OpenFiles files;
  private final Path file;
  private final byte[] single = new byte[1];
  private long position;
  private long left;

  PartStream(OpenFiles files, Path file, long position, long length) {
    this.files = files;
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
    int got = files.read(file, ByteBuffer.wrap(to, offset, wanted), position);
    if (got < 0) return -1; // the file is too short; whoever checks the bytes says so
    position += got;
    left -= got;
    return got;
  }
}
