// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.mapred.IFile;
import org.apache.hadoop.mapred.RawKeyValueIterator;

/** Makes the result of another merge a segment of a merge. */
final class IteratorReader<K, V> extends IFile.Reader<K, V> {
  private final RawKeyValueIterator records;
  private final long bytes;

  /**
   * @param bytes about how many will come, for the progress
   */
  IteratorReader(Configuration conf, RawKeyValueIterator records, long bytes) throws IOException {
    super(conf, null, bytes, null, null);
    this.records = records;
    this.bytes = bytes;
  }

  private void show(DataInputBuffer from, DataInputBuffer to) {
    int length = from.getLength() - from.getPosition();
    to.reset(from.getData(), from.getPosition(), length);
    bytesRead += length;
  }

  @Override
  public boolean nextRawKey(DataInputBuffer key) throws IOException {
    if (!records.next()) return false;
    show(records.getKey(), key);
    return true;
  }

  @Override
  public void nextRawValue(DataInputBuffer value) throws IOException {
    show(records.getValue(), value);
    ++recNo;
  }

  @Override
  public long getPosition() {
    return bytesRead;
  }

  @Override
  public long getLength() {
    return bytes;
  }

  @Override
  public void close() throws IOException {
    records.close();
  }
}
