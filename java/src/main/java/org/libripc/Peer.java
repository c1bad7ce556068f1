// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.util.OptionalInt;

/**
 * Who sent a message, as it was proven. Immutable; those of one context that are the same are one
 * object.
 *
 * @param identity its name in this context's trust file; "" if none is proven. Between hosts it is
 *     proven by the peer's key, on one host also by the user that the file names
 * @param user the number of its user, by the kernel, unsigned: {@link Integer#toUnsignedLong};
 *     empty if it is on another host, or not known
 */
public record Peer(String identity, OptionalInt user) {
  /** Nobody has proven anything. */
  public static final Peer UNKNOWN = new Peer("", OptionalInt.empty());

  /**
   * Whether two messages can be of the same sender: of one member, or of one user of this host.
   * They may have come by different paths. Where nothing is proven, nobody is told apart.
   */
  public boolean canBe(Peer other) {
    if (this == other) return true;
    if (user.isPresent() && user.equals(other.user)) {
      return identity.isEmpty() || other.identity.isEmpty() || identity.equals(other.identity);
    }
    return identity.equals(other.identity) && (!identity.isEmpty() || user.equals(other.user));
  }
}
