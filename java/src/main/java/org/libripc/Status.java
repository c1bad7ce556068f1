// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import org.libripc.internal.Binding;

/** What a call ended with: the statuses of ripc.h, in their order. */
public enum Status {
  /** The call did what it should. */
  OK,
  /** The peer has no room now. */
  AGAIN,
  /** Nothing to receive now. */
  EMPTY,
  /** The ticket is not complete. */
  PENDING,
  /** The time given ran out. */
  TIMEOUT,
  /** The wait was ended. */
  INTERRUPTED,
  /** Larger than the peer's short limit, or than a documented limit. */
  TOO_LARGE,
  /** No living service has this ID. */
  NO_SERVICE,
  /** The peer died or closed before it took the message. */
  PEER_DEAD,
  /** The peer does not accept this process. */
  REFUSED,
  /** The receiver had no receive window left for a long item. */
  NO_WINDOW,
  /** The receive window for a long item was smaller than the item. */
  WINDOW_TOO_SMALL,
  /** A living service holds this ID. */
  ID_IN_USE,
  /** Another name hashes to the same ID. */
  NAME_COLLISION,
  /** A newer holder took this service's ID over. */
  FENCED,
  /** The service or context is closing. */
  CLOSED,
  /** An argument breaks the contract of the call. */
  INVALID_ARGUMENT,
  /** Memory, or the pool's limit, is exhausted. */
  NO_MEMORY,
  /** No file descriptors left. */
  NO_DESCRIPTORS,
  /** A documented limit is reached. */
  LIMIT,
  /** The operating system forbids it. */
  PERMISSION,
  /** The peer speaks another protocol version. */
  VERSION_MISMATCH,
  /** Ended by the caller. */
  CANCELLED,
  /** The sender withdrew it before it was taken. */
  REVOKED,
  /** The peer sent something that breaks the protocol. */
  CORRUPT,
  /** This path cannot do it, or the service has no such method. */
  UNSUPPORTED,
  /** The handle belongs to the parent process. */
  FORKED,
  /** An operating system call failed in an unexpected way. */
  SYSTEM;

  private static final Status[] VALUES = values();

  /** The number that ripc.h gives it. */
  public int code() {
    return ordinal();
  }

  /** One sentence on what it means and what to do. */
  public String text() {
    return Binding.get().statusText(ordinal());
  }

  /** The status with this number; {@link #SYSTEM} for one that this version does not know. */
  static Status of(int code) {
    return code >= 0 && code < VALUES.length ? VALUES[code] : SYSTEM;
  }
}
