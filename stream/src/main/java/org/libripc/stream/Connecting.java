// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.io.IOException;
import java.net.ConnectException;
import java.net.SocketTimeoutException;
import java.nio.channels.ClosedChannelException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.libripc.RipcException;
import org.libripc.ServiceId;

/** A stream that is being opened, until the other side has accepted it. Any thread. */
final class Connecting {
  private final Multiplexer multiplexer;
  private final CompletableFuture<ByteStream> result = new CompletableFuture<>();
  private ByteStream stream;
  private volatile Runnable timeout = () -> {};

  Connecting(Multiplexer multiplexer) {
    this.multiplexer = multiplexer;
  }

  /**
   * Begins to connect.
   *
   * @param timeoutNanos the time after which it gives up; 0: no limit
   */
  CompletableFuture<ByteStream> start(ServiceId server, long timeoutNanos) {
    do {
      stream = new ByteStream(multiplexer, server, multiplexer.nextNumber(), this, null);
    } while (!multiplexer.add(stream));
    if (!multiplexer.isOpen()) stream.close(); // the end may not have seen it
    // Nobody else closes the stream of a future that its owner has cancelled.
    result.whenComplete(
        (opened, problem) -> {
          if (problem != null && stream.isOpen()) multiplexer.execute(stream::close);
        });
    if (timeoutNanos > 0) {
      timeout =
          multiplexer.executor.schedule(
              () -> stream.fail(late(server, timeoutNanos)), timeoutNanos, TimeUnit.NANOSECONDS);
    }
    multiplexer.execute(this::open);
    return result;
  }

  private void open() {
    if (!stream.isOpen()) return;
    try {
      stream.out().path(multiplexer.shortLimit(stream.peer()));
      stream.out().control(Frame.Type.OPEN, 0, Frame.Reason.NONE);
    } catch (RipcException problem) {
      stream.fail(new IOException(problem));
    }
  }

  private static IOException late(ServiceId server, long nanos) {
    return new SocketTimeoutException(
        server
            + " has not accepted the connection in "
            + TimeUnit.NANOSECONDS.toMillis(nanos)
            + " ms: see whether it takes connections, or give it longer.");
  }

  void accepted() {
    timeout.run();
    multiplexer.execute(() -> result.complete(stream));
  }

  void refused(IOException cause) {
    timeout.run();
    stream.close();
    IOException problem = cause;
    if (!(cause instanceof SocketTimeoutException)) {
      problem = new ConnectException("No connection to " + stream.peer() + ": " + why(cause));
      problem.initCause(cause);
    }
    IOException failure = problem;
    multiplexer.deliver(() -> result.completeExceptionally(failure));
  }

  private static String why(IOException cause) {
    return cause instanceof ClosedChannelException ? "the client was stopped" : cause.getMessage();
  }
}
