// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.IFileInputStream;
import org.apache.hadoop.mapreduce.CryptoUtils;

/**
 * A reducer's part of a map output that lies on this host. Its file is open from the beginning, so
 * that it can be read until {@link #close}, even if the file is deleted.
 *
 * @param raw its length before compression, with the padding of encryption
 * @param length its length in the file
 */
record LocalOutput(Path file, FileChannel channel, long start, long raw, long length)
    implements Closeable {

  /** Its bytes, decrypted if they are encrypted, with the checksum at the end. */
  InputStream open(Configuration conf) throws IOException {
    return CryptoUtils.wrapIfNecessary(conf, new PartStream(channel, start, length), length);
  }

  /** Its bytes without the checksum, which is checked when the last one is read. */
  IFileInputStream openChecked(Configuration conf) throws IOException {
    return new IFileInputStream(open(conf), length - CryptoUtils.cryptoPadding(conf), conf);
  }

  /**
   * Reads the whole part.
   *
   * @param buffer is overwritten
   * @throws IOException if the part is damaged, or cannot be read
   */
  void check(Configuration conf, byte[] buffer) throws IOException {
    try (IFileInputStream in = openChecked(conf)) {
      while (in.read(buffer, 0, buffer.length) >= 0) {
        // the stream checks
      }
    }
  }

  @Override
  public void close() {
    try {
      channel.close();
    } catch (IOException nothingWasWritten) {
      // and nothing is lost
    }
  }
}
