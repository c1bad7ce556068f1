// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import java.nio.ByteBuffer;
import org.libripc.Message;
import org.libripc.Status;
import org.libripc.ViewKind;

/**
 * The items of a request or of an answer. They are valid until it ends, like the items of a {@link
 * Message}: views of short items may show other bytes afterwards, but do no other harm. Long items
 * are lent: {@link #copyTo} and {@link #item} copy them, {@link #borrow} does not.
 */
public abstract sealed class CallItems permits Request, CallResult {
  CallItems() {}

  abstract Message message();

  /** How many items there are. */
  public int itemCount() {
    return message().itemCount();
  }

  /** Where an item is. */
  public ViewKind kind(int index) {
    return message().kind(index);
  }

  /** {@link Status#OK}, or why an item is missing. */
  public Status status(int index) {
    return message().status(index);
  }

  /** The size of an item in bytes; the announced size if the item is missing. */
  public long size(int index) {
    return message().size(index);
  }

  /** The bytes of an item, as {@link Message#item}. */
  public ByteBuffer item(int index) {
    return message().item(index);
  }

  /** Copies bytes of an item, as {@link Message#copyTo}. */
  public int copyTo(int index, long from, ByteBuffer to) {
    return message().copyTo(index, from, to);
  }

  /** A view of a lent item in place, as {@link Message#borrow}. */
  public ByteBuffer borrow(int index) {
    return message().borrow(index);
  }
}
