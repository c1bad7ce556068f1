// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.function.Consumer;
import org.eclipse.jetty.io.AbstractEndPoint;
import org.eclipse.jetty.io.Connection;
import org.eclipse.jetty.io.EofException;
import org.eclipse.jetty.util.BufferUtil;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.thread.Scheduler;
import org.libripc.Peer;
import org.libripc.Service;
import org.libripc.ServiceId;
import org.libripc.stream.ByteStream;

/**
 * One end of a stream connection between two services, as Jetty's connections use it.
 *
 * <p>A {@link #write} is complete when its buffers belong to the writer again. A small write
 * completes at once, a larger one when the other side has taken it. {@link #flush} copies what it
 * takes: the bytes up to the new positions of the buffers belong to the caller again.
 */
public final class RipcEndPoint extends AbstractEndPoint {
  private final ByteStream stream;
  private final boolean client;
  private final RipcAddress local;
  private final RipcAddress remote;
  private final Consumer<RipcEndPoint> whenClosed;
  private final Runnable fillable = new Fillable();
  private final Runnable completeWrite = new CompleteWrite();
  private volatile Thread writing; // in a write that keeps its buffers until it is complete

  /**
   * @param client whether this side has opened the stream
   * @param whenClosed called at the end, once its connection knows
   */
  RipcEndPoint(
      Scheduler scheduler, ByteStream stream, boolean client, Consumer<RipcEndPoint> whenClosed) {
    super(scheduler);
    this.stream = stream;
    this.client = client;
    this.whenClosed = whenClosed;
    ServiceId own = stream.service().id();
    local = new RipcAddress(own, client ? stream.number() : 0);
    remote = new RipcAddress(stream.peer(), client ? 0 : stream.number());
    stream.listen(
        new ByteStream.Listener() {
          @Override
          public void used() {
            notIdle();
          }

          @Override
          public void stopping() {
            close();
          }
        });
  }

  /** The service at the other end. */
  public ServiceId peer() {
    return stream.peer();
  }

  /** The proven identity of the peer; {@link #peer} is only what it claims. */
  public Peer provenPeer() {
    return stream.provenPeer();
  }

  ByteStream stream() {
    return stream;
  }

  @Override
  public RipcAddress getLocalSocketAddress() {
    return local;
  }

  @Override
  public RipcAddress getRemoteSocketAddress() {
    return remote;
  }

  /** The service that the connection uses. */
  @Override
  public Service getTransport() {
    return stream.service();
  }

  // ---- Jetty reads and writes ----

  @Override
  public int fill(ByteBuffer buffer) throws IOException {
    if (isInputShutdown()) return -1;
    int position = BufferUtil.flipToFill(buffer);
    int count;
    try {
      count = stream.read(buffer);
    } catch (IOException broken) {
      shutdownInput();
      // Jetty's client keeps a connection that fails between two responses, and would use it again.
      if (client) stream.execute(this::closeConnection);
      throw new EofException(broken);
    } finally {
      BufferUtil.flipToFlush(buffer, position);
    }
    if (count > 0) {
      notIdle();
    } else if (count < 0) {
      shutdownInput();
    }
    return count;
  }

  private void closeConnection() {
    Connection connection = getConnection();
    if (connection != null) connection.close();
  }

  @Override
  public void write(Callback callback, ByteBuffer... buffers) {
    writing(() -> super.write(callback, buffers));
  }

  // One write at a time; what another thread resets too early is copied.
  private void writing(Runnable flusher) {
    writing = Thread.currentThread();
    try {
      flusher.run();
    } finally {
      writing = null;
    }
  }

  @Override
  public boolean flush(ByteBuffer... buffers) throws IOException {
    if (!isOpen()) throw new EofException("the connection is closed");
    long before = BufferUtil.remaining(buffers);
    try {
      boolean complete = stream.flush(writing == Thread.currentThread(), buffers);
      if (complete) writing = null; // the callback of the write may flush, too
      return complete;
    } catch (IOException broken) {
      throw new EofException(broken);
    } finally {
      if (BufferUtil.remaining(buffers) < before) notIdle();
    }
  }

  @Override
  protected void onIncompleteFlush() {
    stream.onWritable(completeWrite);
  }

  @Override
  protected void needsFillInterest() {
    stream.onReadable(fillable);
  }

  @Override
  protected void doShutdownOutput() {
    stream.shutdownOutput();
  }

  @Override
  protected void doClose() {
    stream.onReadable(null); // Jetty itself tells its reader about the end
    stream.close();
  }

  @Override
  public void onClose(Throwable failure) {
    super.onClose(failure);
    stream.execute(
        () -> {
          Connection connection = getConnection();
          if (connection != null) connection.onClose(failure);
          whenClosed.accept(this);
        });
  }

  @Override
  public String toEndPointString() {
    return super.toEndPointString() + stream;
  }

  private final class Fillable implements JettyExecutor.Task {
    @Override
    public void run() {
      getFillInterest().fillable();
    }

    @Override
    public InvocationType getInvocationType() {
      return getFillInterest().getCallbackInvocationType();
    }
  }

  private final class CompleteWrite implements JettyExecutor.Task {
    @Override
    public void run() {
      writing(() -> getWriteFlusher().completeWrite());
    }

    @Override
    public InvocationType getInvocationType() {
      return getWriteFlusher().getCallbackInvocationType();
    }
  }
}
