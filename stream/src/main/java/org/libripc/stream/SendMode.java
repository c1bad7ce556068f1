// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import org.libripc.ItemKind;
import org.libripc.Message;

/** How bytes of a writer go to the other side. */
enum SendMode {
  /** In the message: copied twice, and the writer's again. */
  SHORT(ItemKind.SHORT, true),
  /** Into the other side's return buffer. */
  RETURN(ItemKind.RETURN, false),
  /** From memory of their own, into which they are copied: the writer's again. */
  COPY(ItemKind.LONG, true),
  /** From where they lie, which the writer changes no more: done with as soon as they were sent. */
  GIVE(ItemKind.LONG, true),
  /** From where they lie: the writer's again when they were taken. */
  BORROW(ItemKind.LONG, false);

  final ItemKind kind; // of what is large

  /** Whether the writer goes on as soon as they were sent. */
  final boolean isWritten;

  SendMode(ItemKind kind, boolean isWritten) {
    this.kind = kind;
    this.isWritten = isWritten;
  }

  /** That of bytes that the writer may change as soon as they were sent. */
  static SendMode copying(GatherList parts, int shortLimit) {
    return parts.bytes() + Frame.BYTES <= shortLimit ? SHORT : COPY;
  }

  /**
   * That of some bytes, which are cut for the return buffer if they go there.
   *
   * @param shortLimit of a message on this path; 0 if short ones may get lost
   * @param smallLimit of the small parts of a message with large ones, likewise
   * @param copyLimit up to which they are copied
   * @param giveLimit up to which what was given away counts as written at once
   * @param request the message that has brought a return buffer; null: none has
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
