// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.util.OptionalInt;

/**
 * The proven identity of a message's sender. Immutable; a context has one object for each peer.
 *
 * @param identity its name in this context's trust file; "" if none is proven. Between hosts the
 *     peer's key proves it, on one host also the user that the file names
 * @param user its user ID, from the kernel, unsigned: {@link Integer#toUnsignedLong}; empty if it
 *     is on another host, or not known
 */
public record Peer(String identity, OptionalInt user) {
  /** A peer that has proven nothing. */
  public static final Peer UNKNOWN = new Peer("", OptionalInt.empty());

  /**
   * Whether two messages can come from the same sender: from one member, or from one user of this
   * host. They may have come by different paths. Senders that have proven nothing cannot be told
   * apart.
   */
  public boolean canBe(Peer other) {
    if (this == other) return true;
    if (user.isPresent() && user.equals(other.user)) {
      return identity.isEmpty() || other.identity.isEmpty() || identity.equals(other.identity);
    }
    return identity.equals(other.identity) && (!identity.isEmpty() || user.equals(other.user));
  }
}
