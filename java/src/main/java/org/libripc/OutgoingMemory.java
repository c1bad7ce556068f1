// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.libripc.internal.Layout;
import org.libripc.internal.Layout.Item;
import org.libripc.internal.Layout.Outcome;
import org.libripc.internal.Layout.SendOptions;
import org.libripc.internal.NativeBlock;

/**
 * The native memory of an {@link Outgoing}: the copies of items, then arguments and results of
 * native calls, in one piece.
 *
 * <p>The arguments of plain messages are separate. They only ever hold numbers that are harmless in
 * any mixture: the items are copies, start in the first INLINE bytes and have at most INLINE bytes.
 * So they end inside this memory, whatever threads that share the message do. One thread at a time
 * writes the other arguments ({@link Outgoing#begin}).
 */
final class OutgoingMemory {
  /** The bytes at the start for the copies of items. */
  static final int INLINE = 4096;

  private static final int MISSED = 64;

  private static final int PLAIN_OPTIONS = INLINE;
  private static final int PLAIN_ITEMS = PLAIN_OPTIONS + SendOptions.BYTES;
  private static final int OPTIONS = PLAIN_ITEMS + Layout.MAX_ITEMS * Item.BYTES;
  private static final int ITEMS = OPTIONS + SendOptions.BYTES;
  private static final int RETURNS = ITEMS + Layout.MAX_ITEMS * Item.BYTES;
  private static final int OUTCOME = RETURNS + Layout.MAX_RETURNS * Layout.ReturnBuffer.BYTES;
  private static final int TICKET = OUTCOME + Outcome.BYTES;
  private static final int REQUEST = TICKET + 8;
  private static final int MISSED_IDS = REQUEST + 8;
  private static final int TOTAL = Math.max(MISSED_IDS + MISSED * 8, 2 * INLINE);

  final ByteBuffer bytes;
  final long address;

  OutgoingMemory() {
    NativeBlock block = new NativeBlock(TOTAL);
    bytes = block.bytes;
    address = block.address;
    bytes.putLong(PLAIN_OPTIONS, SendOptions.BYTES);
    bytes.putLong(OPTIONS, SendOptions.BYTES);
  }

  void plainItem(int index, int from, int size, int kind) {
    int at = PLAIN_ITEMS + index * Item.BYTES;
    bytes.putLong(at + Item.DATA, address + from);
    bytes.putLong(at + Item.SIZE, size);
    bytes.putInt(at + Item.KIND, kind);
  }

  long plainItems() {
    return address + PLAIN_ITEMS;
  }

  /** The address of the options of a plain message, 0 if none are needed. */
  long plainOptions(int tag) {
    if (tag == 0) return 0;
    bytes.putInt(PLAIN_OPTIONS + SendOptions.TAG, tag);
    return address + PLAIN_OPTIONS;
  }

  void item(int index, long start, int size, int kind, int returnIndex) {
    int at = ITEMS + index * Item.BYTES;
    bytes.putLong(at + Item.DATA, start);
    bytes.putLong(at + Item.SIZE, size);
    bytes.putInt(at + Item.KIND, kind);
    bytes.putInt(at + Item.RETURN_INDEX, returnIndex);
  }

  /** The last step before a native call. */
  void returnBuffers(ReturnBuffer[] buffers) {
    bytes.putLong(TICKET, 0);
    for (int index = 0; index < buffers.length; ++index) {
      int at = RETURNS + index * Layout.ReturnBuffer.BYTES;
      bytes.putLong(at + Layout.ReturnBuffer.DATA, buffers[index].landing());
      bytes.putLong(at + Layout.ReturnBuffer.SIZE, buffers[index].size());
    }
  }

  void options(
      int tag, int returnCount, long timeout, long user, boolean group, boolean unordered) {
    bytes.putInt(OPTIONS + SendOptions.TAG, tag);
    bytes.putInt(OPTIONS + SendOptions.RETURN_COUNT, returnCount);
    bytes.putLong(OPTIONS + SendOptions.RETURNS, returns(returnCount));
    bytes.putLong(OPTIONS + SendOptions.TIMEOUT, timeout);
    bytes.putLong(OPTIONS + SendOptions.CALLBACK, user == 0 ? 0 : Callbacks.TICKET_ADDRESS);
    bytes.putLong(OPTIONS + SendOptions.USER, user);
    bytes.putLong(OPTIONS + SendOptions.REQUEST_ID, returnCount == 0 ? 0 : address + REQUEST);
    bytes.putLong(OPTIONS + SendOptions.OUTCOME, group ? address + OUTCOME : 0);
    bytes.putInt(OPTIONS + SendOptions.FLAGS, unordered ? SendOptions.UNORDERED : 0);
    bytes.putLong(REQUEST, 0);
    bytes.putLong(OUTCOME, Outcome.BYTES);
    bytes.putLong(OUTCOME + Outcome.MEMBERS, 0);
    bytes.putLong(OUTCOME + Outcome.MISSED, address + MISSED_IDS);
    bytes.putLong(OUTCOME + Outcome.MISSED_CAPACITY, MISSED);
    if (group)
      for (int index = 0; index < MISSED; ++index) bytes.putLong(MISSED_IDS + 8 * index, 0);
  }

  long items() {
    return address + ITEMS;
  }

  long returns(int returnCount) {
    return returnCount == 0 ? 0 : address + RETURNS;
  }

  long options() {
    return address + OPTIONS;
  }

  long ticketAddress() {
    return address + TICKET;
  }

  /** The handle of the ticket that the native call has made, 0 if none. */
  long ticketHandle() {
    return bytes.getLong(TICKET);
  }

  /** The request that the native call has made. */
  long request() {
    return bytes.getLong(REQUEST);
  }

  GroupOutcome outcome() {
    int members = bytes.getInt(OUTCOME + Outcome.MEMBERS);
    int taken = bytes.getInt(OUTCOME + Outcome.TAKEN);
    List<ServiceId> missed = new ArrayList<>();
    for (int index = 0; index < Math.min(members - taken, MISSED); ++index) {
      long id = bytes.getLong(MISSED_IDS + 8 * index);
      if (id != 0) missed.add(ServiceId.of(id)); // 0: beyond the members whose IDs are known
    }
    return new GroupOutcome(members, taken, List.copyOf(missed));
  }
}
