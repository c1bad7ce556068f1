// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import com.sun.jna.Pointer;
import org.libripc.internal.Layout.Record;
import org.libripc.internal.Layout.View;

/** Writes a received message down as a record, with JNA: what write_record() of ripc_jni.c does. */
final class RecordWriter {
  private RecordWriter() {}

  /**
   * Writes the message to {@code out}, with the bytes of its short items if {@code room} allows,
   * and gives it back unless the record refers to it. Returns the size of the record.
   */
  static long write(long message, long out, long room) {
    Pointer record = new Pointer(out);
    int items = (int) JnaCalls.ripc_message_item_count(message);
    int returns = (int) JnaCalls.ripc_message_return_count(message);
    long used = Record.HEAD + (long) items * View.BYTES;
    for (int index = 0; index < returns; ++index, used += 8) {
      record.setLong(used, JnaCalls.ripc_message_return_size(message, index));
    }
    boolean keep = returns != 0;
    for (int index = 0; index < items; ++index) {
      long at = Record.HEAD + (long) index * View.BYTES;
      JnaCalls.ripc_message_item(message, index, out + at);
      int kind = record.getInt(at + View.KIND);
      if (kind == View.LENT) {
        keep = true;
      } else if (kind == View.SHORT) {
        long size = record.getLong(at + View.SIZE);
        long rounded = (size + 7) & ~7L;
        if (size > room || rounded > room - used) {
          record.setInt(at + View.KIND, View.SHORT_IN_PLACE);
          keep = true;
        } else {
          if (size != 0) LibC.memcpy(out + used, record.getLong(at + View.DATA), size);
          record.setLong(at + View.DATA, used);
          used += rounded;
        }
      }
    }
    record.setInt(Record.RECORD_SIZE, (int) used);
    record.setInt(Record.TAG, JnaCalls.ripc_message_tag(message));
    record.setLong(Record.SOURCE, JnaCalls.ripc_message_source(message));
    record.setLong(Record.IN_REPLY_TO, JnaCalls.ripc_message_in_reply_to(message));
    record.setLong(Record.HANDLE, keep ? message : 0);
    record.setInt(Record.ITEM_COUNT, items);
    record.setInt(Record.RETURN_COUNT, returns);
    if (!keep) JnaCalls.ripc_message_release(message);
    return used;
  }
}
