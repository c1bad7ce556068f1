// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import org.libripc.internal.Binding;

/**
 * The failure of a libripc call: its status, and a sentence that says what happened and what to do.
 * The statuses that programs handle most often have their own classes. Immutable.
 */
public class RipcException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** What the call ended with. */
  private final Status status;

  RipcException(Status status, String sentence) {
    super(status + ": " + sentence);
    this.status = status;
  }

  /** What the call ended with. */
  public Status status() {
    return status;
  }

  /** The exception for a status that the calling thread's last native call has returned. */
  static RipcException ofLastCall(int code) {
    return of(Status.of(code), Binding.get().lastError());
  }

  static RipcException of(Status status, String sentence) {
    return switch (status) {
      case AGAIN -> new NoRoom(sentence);
      case TIMEOUT -> new TimedOut(sentence);
      case NO_SERVICE -> new NoService(sentence);
      case PEER_DEAD -> new PeerDead(sentence);
      case FENCED -> new Fenced(sentence);
      case CLOSED -> new Closed(sentence);
      case TOO_LARGE -> new TooLarge(sentence);
      case ID_IN_USE -> new IdInUse(sentence);
      default -> new RipcException(status, sentence);
    };
  }

  /** Throws if the calling thread's last native call has failed. */
  static void check(int code) {
    if (code != 0) throw ofLastCall(code);
  }

  /** {@link Status#AGAIN}: the peer has no room; nothing was sent. */
  public static final class NoRoom extends RipcException {
    private static final long serialVersionUID = 1;

    NoRoom(String sentence) {
      super(Status.AGAIN, sentence);
    }
  }

  /** {@link Status#TIMEOUT}: the time given ran out. */
  public static final class TimedOut extends RipcException {
    private static final long serialVersionUID = 1;

    TimedOut(String sentence) {
      super(Status.TIMEOUT, sentence);
    }
  }

  /** {@link Status#NO_SERVICE}: no living service has this ID. */
  public static final class NoService extends RipcException {
    private static final long serialVersionUID = 1;

    NoService(String sentence) {
      super(Status.NO_SERVICE, sentence);
    }
  }

  /** {@link Status#PEER_DEAD}: the peer died or closed before it took the message. */
  public static final class PeerDead extends RipcException {
    private static final long serialVersionUID = 1;

    PeerDead(String sentence) {
      super(Status.PEER_DEAD, sentence);
    }
  }

  /** {@link Status#FENCED}: another process took the service's ID over. */
  public static final class Fenced extends RipcException {
    private static final long serialVersionUID = 1;

    Fenced(String sentence) {
      super(Status.FENCED, sentence);
    }
  }

  /** {@link Status#CLOSED}: the object of the call, or one that it needs, is closed. */
  public static final class Closed extends RipcException {
    private static final long serialVersionUID = 1;

    Closed(String sentence) {
      super(Status.CLOSED, sentence);
    }
  }

  /** {@link Status#TOO_LARGE}: the short items are larger than the peer accepts. */
  public static final class TooLarge extends RipcException {
    private static final long serialVersionUID = 1;

    TooLarge(String sentence) {
      super(Status.TOO_LARGE, sentence);
    }
  }

  /** {@link Status#ID_IN_USE}: a living service holds the ID. */
  public static final class IdInUse extends RipcException {
    private static final long serialVersionUID = 1;

    IdInUse(String sentence) {
      super(Status.ID_IN_USE, sentence);
    }
  }
}
