// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/** Where an item of a received message is. */
public enum ViewKind {
  /** In the message. */
  SHORT,
  /** In a receive window. */
  WINDOW,
  /** In the sender's memory, lent until the message is closed; read only. */
  LENT,
  /** In a return buffer of the request that the message answers. */
  RETURNED,
  /** Nowhere: {@link Message#status} says why. */
  FAILED
}
