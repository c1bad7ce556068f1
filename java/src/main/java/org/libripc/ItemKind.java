// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/**
 * How an item of a message travels, and who owns its memory when the send has returned. <b>AUTO
 * copies, LONG borrows.</b>
 */
public enum ItemKind {
  /**
   * In the message if it fits; else the receiver pulls it from a copy. If several items do not fit
   * together, the largest are copied. The memory is the caller's when the send has returned.
   */
  AUTO,
  /** In the message itself. The memory is the caller's when the send has returned. */
  SHORT,
  /**
   * The receiver pulls it from the caller's memory, without a copy, whatever its size: the memory
   * is on loan until the ticket is complete ({@link Outgoing#borrow}). The send copies only heap
   * buffers.
   */
  LONG,
  /**
   * In replies only: goes into a return buffer of the request; an item that the buffer cannot take
   * travels short, or long from a copy. The memory is the caller's when the send has returned.
   */
  RETURN
}
