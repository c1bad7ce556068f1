// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/** How an item of a message travels. */
public enum ItemKind {
  /** Short if the whole message fits, else long. */
  AUTO,
  /** In the message itself. */
  SHORT,
  /** Pulled by the receiver into a window. */
  LONG,
  /** In replies only: written into a return buffer of the request. */
  RETURN
}
