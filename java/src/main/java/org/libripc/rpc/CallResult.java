// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import org.libripc.Message;
import org.libripc.Status;
import org.libripc.internal.Binding;
import org.libripc.internal.RpcEndpoint;

/**
 * How a call ended, with the answer if there is one. That of a {@link CallHandler} is valid until
 * the handler returns. Others are to be closed, which ends what their items show; an unclosed one
 * with lent items is found by the garbage collector and reported.
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

  /** Shows an end. Returns this. */
  CallResult show(Message newAnswer, CallOutcome newOutcome, Status newStatus, int newCode) {
    outcome = newOutcome;
    answer = newOutcome == CallOutcome.ANSWERED ? newAnswer : null;
    status = newStatus;
    code = newCode;
    return this;
  }

  /** It shows nothing any more. */
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

  /** What is known. */
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
   * and what to do. But {@link Status#text} is about messages: it may advise to send again what has
   * run.
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

  /** The same as one that lasts until it is closed; this one has ended. Of such a one, itself. */
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

  /** Gives the answer back. */
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
