// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/**
 * How an item of a message travels, and whose its memory is when the send has returned. <b>AUTO
 * copies, LONG borrows.</b>
 */
public enum ItemKind {
  /**
   * In the message if it fits, else pulled by the receiver from a copy. Of several that do not fit
   * together the largest are copied. The memory is the caller's when the send has returned.
   */
  AUTO,
  /** In the message itself. The memory is the caller's when the send has returned. */
  SHORT,
  /**
   * Pulled by the receiver where it lies, without a copy, whatever its size: the memory is on loan
   * until the ticket is complete ({@link Outgoing#borrow}). Only heap buffers are copied by the
   * send.
   */
  LONG,
  /**
   * In replies only: goes into a return buffer of the request; what the buffer cannot take travels
   * short, or long from a copy. The memory is the caller's when the send has returned.
   */
  RETURN
}
