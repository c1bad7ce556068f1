// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import java.util.Arrays;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import org.libripc.Message;
import org.libripc.RipcException;
import org.libripc.Status;
import org.libripc.internal.RpcEndpoint;
import org.libripc.internal.RpcRequest;
import org.libripc.internal.Uncaught;

/**
 * Passes on to handlers and callers what a run has found. It does not refer to the {@link Rpc}, so
 * that the garbage collector finds one that the application has lost.
 */
final class Dispatch implements RpcEndpoint.Events {
  private record Method(Executor executor, RequestHandler handler) {}

  private RpcEndpoint endpoint;
  private CallResult result; // for CallHandlers
  private Request request; // for handlers without an executor
  private Method[] methods = {};

  void start(RpcEndpoint newEndpoint) {
    endpoint = newEndpoint;
    result = new CallResult(newEndpoint);
  }

  /** Called while it is this thread's turn. Returns the method's index. */
  int add(Executor executor, RequestHandler handler) {
    methods = Arrays.copyOf(methods, methods.length + 1);
    methods[methods.length - 1] = new Method(executor, handler);
    return methods.length - 1;
  }

  @Override
  public void requested(int handler, RpcRequest come) {
    Method method = methods[handler];
    if (method.executor == null) {
      // It is always the same one.
      if (request == null) request = new Request(come);
      handle(method.handler, request);
    } else {
      pass(method, come);
    }
  }

  private static void pass(Method method, RpcRequest come) {
    Request kept;
    try {
      kept = Request.kept(come.keep());
    } catch (RipcException.Closed closed) { // by the handler of an earlier request
      come.end(Status.CLOSED, false);
      return;
    }
    try {
      method.executor.execute(
          () -> {
            if (kept.isEnded()) return;
            if (kept.handle().timeLeft() == 0) {
              kept.handle().end(Status.TIMEOUT, false);
            } else {
              handle(method.handler, kept);
            }
          });
    } catch (RejectedExecutionException full) {
      kept.handle().end(Status.AGAIN, false);
    } catch (Throwable thrown) {
      kept.handle().end(Status.CANCELLED, true);
      Uncaught.tell(thrown);
    }
  }

  private static void handle(RequestHandler handler, Request each) {
    try {
      handler.handle(each);
    } catch (Throwable thrown) {
      Status status = thrown instanceof RipcException problem ? problem.status() : Status.CANCELLED;
      each.handle().end(status, true);
      Uncaught.tell(thrown);
    }
  }

  @Override
  public void ended(
      Object call, Message answer, int outcome, Status status, int code, boolean run) {
    CallResult shown = run ? result : new CallResult(endpoint);
    shown.show(answer, CallOutcome.of(outcome), status, code);
    try {
      if (call instanceof RpcCall future) {
        future.ended(shown.keep());
      } else if (call != null) {
        ((CallHandler) call).ended(shown);
      }
    } catch (Throwable thrown) {
      Uncaught.tell(thrown);
    } finally {
      shown.hide();
    }
  }
}
