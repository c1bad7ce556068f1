// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import org.libripc.Message;
import org.libripc.Status;
import org.libripc.internal.Binding;
import org.libripc.internal.RpcEndpoint;

/**
 * How a call ended, with the answer if there is one. The result passed to a {@link CallHandler} is
 * valid until the handler returns. Close all others, which invalidates their items; the garbage
 * collector finds and reports unclosed ones with lent items.
 *
 * <p>Any thread, one at a time.
 */
public final class CallResult extends CallItems implements AutoCloseable {
  private final RpcEndpoint endpoint;
  private Message answer; // null: none, or closed
  private CallOutcome outcome;
  private Status status;
  private int code;

  CallResult(RpcEndpoint endpoint) {
    this.endpoint = endpoint;
  }

  /** Shows the end of a call. Returns this. */
  CallResult show(Message newAnswer, CallOutcome newOutcome, Status newStatus, int newCode) {
    outcome = newOutcome;
    answer = newOutcome == CallOutcome.ANSWERED ? newAnswer : null;
    status = newStatus;
    code = newCode;
    return this;
  }

  /** From here on it shows nothing. */
  void hide() {
    outcome = null;
    answer = null;
  }

  private void checkOpen() {
    if (outcome == null) {
      throw new IllegalStateException(
          "This result was closed, or its handler has returned: keep() it there.");
    }
  }

  @Override
  Message message() {
    checkOpen();
    if (answer == null)
      throw new IllegalStateException("This call has no answer (" + status + "). " + text());
    return answer;
  }

  /** What is known about the call. */
  public CallOutcome outcome() {
    checkOpen();
    return outcome;
  }

  /** Whether there is an answer. */
  public boolean isAnswered() {
    return outcome() == CallOutcome.ANSWERED;
  }

  /** {@link Status#OK} if it was answered, else why not. */
  public Status status() {
    checkOpen();
    return status;
  }

  /**
   * How it ended, in a sentence or two: whether it is safe to call again, why there is no answer,
   * and what to do. In contrast, {@link Status#text} is about messages: it may advise to repeat a
   * call that has run.
   */
  public String text() {
    checkOpen();
    return Binding.get().callText(outcome.ordinal(), status.code());
  }

  /** The handler's code; 0 without an answer. */
  public int code() {
    checkOpen();
    return code;
  }

  /** How many items the answer has; 0 if there is none. */
  @Override
  public int itemCount() {
    checkOpen();
    return answer == null ? 0 : answer.itemCount();
  }

  /**
   * Moves the result into one that lasts until it is closed, and ends this one. Returns this if it
   * already lasts.
   */
  public CallResult keep() {
    checkOpen();
    if (isKept()) return this;
    CallResult kept = new CallResult(null);
    kept.show(answer == null ? null : endpoint.own(answer), outcome, status, code);
    hide();
    return kept;
  }

  private boolean isKept() {
    return endpoint == null;
  }

  /** Releases the answer. */
  @Override
  public void close() {
    Message closed = answer;
    hide();
    if (closed != null && isKept()) closed.close();
  }

  @Override
  public String toString() {
    if (outcome == null) return "CallResult, closed";
    String known = "CallResult " + outcome + " " + status;
    return answer == null ? known + ": " + text() : known;
  }
}
