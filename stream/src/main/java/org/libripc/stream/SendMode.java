// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import org.libripc.ItemKind;
import org.libripc.Message;

/** How a writer's bytes go to the other side. */
enum SendMode {
  /** In the message: copied twice, and the writer's again at once. */
  SHORT(ItemKind.SHORT, true),
  /** Into the other side's return buffer. */
  RETURN(ItemKind.RETURN, false),
  /** From separate memory, into which they are copied: the writer's again at once. */
  COPY(ItemKind.LONG, true),
  /** In place, from a buffer that the writer will not change: written as soon as they are sent. */
  GIVE(ItemKind.LONG, true),
  /** In place: the writer's again when they were taken. */
  BORROW(ItemKind.LONG, false);

  final ItemKind kind; // of large parts

  /** Whether the writer goes on as soon as the bytes are sent. */
  final boolean isWritten;

  SendMode(ItemKind kind, boolean isWritten) {
    this.kind = kind;
    this.isWritten = isWritten;
  }

  /** The mode for bytes that the writer may change as soon as they are sent. */
  static SendMode copying(GatherList parts, int shortLimit) {
    return parts.bytes() + Frame.BYTES <= shortLimit ? SHORT : COPY;
  }

  /**
   * The mode for some bytes, which are cut to fit the return buffer if they go there.
   *
   * @param shortLimit of a message on this path; 0 if short ones may get lost
   * @param smallLimit of the small parts in a message with large ones; 0 if short messages may get
   *     lost
   * @param copyLimit the largest size that is copied
   * @param giveLimit the largest size at which a given buffer counts as written at once
   * @param request the message that has brought a return buffer; null: none
   */
  static SendMode of(
      GatherList parts,
      int shortLimit,
      int smallLimit,
      int copyLimit,
      int giveLimit,
      Message request) {
    if (parts.bytes() + Frame.BYTES <= shortLimit) return SHORT;
    if (request != null && parts.cutToReturn(request.returnSize(0))) return RETURN;
    if (parts.bytes() <= giveLimit && parts.canBeGiven(smallLimit)) return GIVE;
    return parts.bytes() <= copyLimit || !parts.canBeBorrowed(smallLimit) ? COPY : BORROW;
  }
}
