// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.eclipse.jetty.io.AbstractEndPoint;
import org.eclipse.jetty.io.Connection;
import org.eclipse.jetty.io.EofException;
import org.eclipse.jetty.util.BufferUtil;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.thread.Invocable;
import org.libripc.Message;
import org.libripc.RegisteredBuffer;
import org.libripc.Service;
import org.libripc.ServiceId;
import org.libripc.ViewKind;

/**
 * One end of a stream connection between two services, as Jetty's connections use it.
 *
 * <p>A {@link #write} is complete when its buffers are the writer's again: at once for what is
 * small, when the other side has taken it for the rest. {@link #flush} copies what it takes: its
 * bytes are the caller's again as far as the positions of the buffers have moved.
 */
public final class RipcEndPoint extends AbstractEndPoint {
  /** What the owner of the connection does at its ends. */
  interface Listener {
    /** The other side has accepted it; at a client only. */
    default void accepted() {}

    /** It was refused, or given up before it was accepted; at a client only. */
    default void refused(IOException cause) {}

    /** It is closed, and its connection knows. */
    default void closed(RipcEndPoint endPoint) {}
  }

  private static final long PROBE_MILLIS = 5_000;

  private final Multiplexer multiplexer;
  private final ServiceId peer;
  private final int number;
  private final boolean client;
  private final RipcAddress local;
  private final RipcAddress remote;
  private final Listener listener;
  private final Inbound in = new Inbound(this::finished);
  private final Outbound out;
  private final Runnable fillable = new Fillable();
  private final CompleteWrite completeWrite = new CompleteWrite();
  // A thread finds itself here only if it is the one that receives, in received().
  private Thread receiving;
  private boolean mayWrite; // that thread's
  private volatile Thread writing; // a write that keeps its buffers until it is complete
  private final ReentrantLock lock = new ReentrantLock();
  // Guarded by the lock.
  private Message life; // what tells the other side, once closed, that this one is alive no more
  private boolean accepted;

  RipcEndPoint(
      Multiplexer multiplexer, ServiceId peer, int number, boolean client, Listener listener) {
    super(multiplexer.scheduler());
    this.multiplexer = multiplexer;
    this.peer = peer;
    this.number = number;
    this.client = client;
    this.listener = listener;
    ServiceId own = multiplexer.service().id();
    local = new RipcAddress(own, client ? number : 0);
    remote = new RipcAddress(peer, client ? 0 : number);
    out = new Outbound(this, multiplexer, client);
  }

  /** The service at the other end. */
  public ServiceId peer() {
    return peer;
  }

  int number() {
    return number;
  }

  Outbound out() {
    return out;
  }

  long consumed() {
    return in.consumed();
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
    return multiplexer.service();
  }

  // ---- Jetty reads and writes ----

  @Override
  public int fill(ByteBuffer buffer) throws IOException {
    if (isInputShutdown()) return -1;
    int position = BufferUtil.flipToFill(buffer);
    int count;
    try {
      count = in.read(buffer);
    } catch (IOException broken) {
      shutdownInput();
      throw new EofException(broken);
    } finally {
      BufferUtil.flipToFlush(buffer, position);
    }
    if (count > 0) {
      notIdle();
      out.credit(in.progress());
    } else if (count < 0) {
      shutdownInput();
    } else {
      out.starving(in.progress());
    }
    return count;
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
    boolean complete = out.flush(buffers, writing == Thread.currentThread());
    if (BufferUtil.remaining(buffers) < before) notIdle();
    return complete;
  }

  @Override
  protected void onIncompleteFlush() {
    out.await();
  }

  @Override
  protected void needsFillInterest() {
    if (!in.isReadable()) return;
    if (!CompletionExecutor.runsAfterwards(fillable)) multiplexer.execute(fillable);
  }

  @Override
  protected void doShutdownOutput() {
    out.end();
  }

  @Override
  protected void doClose() {
    out.close(in.isAtEnd());
    in.close();
    Message held;
    lock.lock();
    try {
      held = life;
      life = null;
    } finally {
      lock.unlock();
    }
    if (held != null) held.close();
    multiplexer.remove(this);
    if (accept()) listener.refused(new ClosedChannelException());
  }

  @Override
  public void onClose(Throwable failure) {
    super.onClose(failure);
    multiplexer.execute(
        () -> {
          Connection connection = getConnection();
          if (connection != null) connection.onClose(failure);
          listener.closed(this);
        });
  }

  @Override
  public String toEndPointString() {
    return super.toEndPointString() + "{in:" + in + "}{out:" + out + "}";
  }

  // ---- Writers of files ----

  /** Memory of the context. */
  RegisteredBuffer lease(int size) {
    return multiplexer.lease(size);
  }

  /** Whether a buffer lies in such memory. */
  boolean isLeased(ByteBuffer buffer) {
    return multiplexer.ripc().isLeased(buffer);
  }

  /** Up to so many bytes travel in a message. */
  int shortLimit() {
    return multiplexer.shortLimit();
  }

  /** How much of a file is best written at once. */
  int pieceBytes() {
    return multiplexer.pieceBytes();
  }

  /** What is written next and not changed any more, in leased memory: {@link Outbound#give}. */
  void give(ByteBuffer buffer) {
    out.give(buffer);
  }

  // ---- The multiplexer ----

  /** The next write may go on; from any thread, with locks held. */
  void writable() {
    if (Thread.currentThread() == receiving) {
      mayWrite = true;
    } else {
      multiplexer.execute(completeWrite);
    }
  }

  /** The connection is broken: reads fail after what has come, writes at once. Any thread. */
  void fail(IOException cause) {
    assert !out.isHeld() : "the reader's lock comes first";
    in.fail(cause);
    out.fail(cause);
    if (accept()) listener.refused(cause);
    multiplexer.execute(fillable);
  }

  /** Keeps a message of the other side until the connection is closed here. */
  private void keep(Message message) {
    lock.lock();
    try {
      if (isOpen()) {
        life = message;
        return;
      }
    } finally {
      lock.unlock();
    }
    message.close();
  }

  private boolean isAccepted() {
    lock.lock();
    try {
      return accepted;
    } finally {
      lock.unlock();
    }
  }

  /** Whether it was not yet. */
  private boolean accept() {
    lock.lock();
    try {
      boolean before = accepted;
      accepted = true;
      return !before;
    } finally {
      lock.unlock();
    }
  }

  /** At a server: the connection was accepted. Takes over the message. */
  void opened(Message message, Frame frame) {
    keep(message);
    accept();
    out.window(frame.window());
    out.control(Frame.Type.ACCEPT, 0, Frame.Reason.NONE);
    scheduleProbe();
  }

  // Where no ticket tells of the death of the other side, a message to it does.
  private void scheduleProbe() {
    if (!isOpen() || !out.needsProbes()) return;
    multiplexer
        .scheduler()
        .schedule(() -> multiplexer.execute(this::probe), PROBE_MILLIS, TimeUnit.MILLISECONDS);
  }

  /**
   * The other side holds nothing of the connection any more. Its last word is on its way, or it has
   * ended without one: then nobody takes, or knows, what is sent now. Any thread.
   */
  void givenBack() {
    if (!isAccepted()) return;
    multiplexer.execute(
        () -> {
          if (isOpen()) out.control(Frame.Type.CREDIT, 0, Frame.Reason.NONE);
        });
  }

  private void probe() {
    if (!isOpen()) return;
    if (getIdleFor() >= PROBE_MILLIS) out.control(Frame.Type.CREDIT, 0, Frame.Reason.NONE);
    scheduleProbe();
  }

  /**
   * A message for the connection, which it takes over. From the thread that receives.
   *
   * @return what is to be run for it; null if nothing is
   */
  Runnable received(Message message, Frame frame) {
    Runnable task;
    receiving = Thread.currentThread();
    try {
      task = take(message, frame);
    } finally {
      receiving = null;
    }
    if (!mayWrite) return task;
    mayWrite = false;
    // A request often tells that the response before it was taken; whoever waits for that reads it
    // next.
    boolean atOnce = completeWrite.getInvocationType() == Invocable.InvocationType.NON_BLOCKING;
    return atOnce ? new Completion(task) : alsoRun(task, completeWrite);
  }

  // Either may wait for the other.
  private Runnable alsoRun(Runnable task, Runnable another) {
    if (task == null) return another;
    multiplexer.execute(another);
    return task;
  }

  private Runnable take(Message message, Frame frame) {
    // A probe of the other side is no use of the connection.
    if (frame.type() != Frame.Type.CREDIT || out.isNews(frame.consumed())) notIdle();
    boolean sane = out.acknowledge(frame.consumed());
    out.look();
    switch (frame.type()) {
      case ACCEPT -> {
        if (client && accept()) {
          keep(message);
          out.window(frame.window());
          scheduleProbe();
          listener.accepted();
          return null;
        }
        message.close();
        sane = false;
      }
      case DATA, CLOSE -> {
        if (client && !isAccepted()) {
          message.close();
          fail(new IOException("The server has closed the connection before it was accepted"));
          return null;
        }
        if (message.inReplyTo() != 0) answered(message);
        out.heard(frame.has(Frame.AWAITED));
        sane &= in.accept(message, frame, multiplexer.window());
        if (sane && frame.type() == Frame.Type.CLOSE) {
          out.fail(new EofException("the other side has closed the connection"));
        }
      }
      case RESET -> {
        message.close();
        fail(new IOException("The connection to " + remote + " " + frame.reason().text));
        return null;
      }
      default -> message.close();
    }
    if (!sane) {
      out.control(Frame.Type.RESET, 0, Frame.Reason.PROTOCOL);
      fail(new IOException("The connection to " + remote + " broke the protocol"));
      return null;
    }
    return in.isReadable() && isFillInterested() ? fillable : null;
  }

  private void answered(Message message) {
    out.returns().answered(message.inReplyTo());
    if (message.kind(message.itemCount() - 1) == ViewKind.RETURNED) multiplexer.partReturned();
  }

  // Its bytes were read.
  private void finished(Message message) {
    if (message.returnCount() != 0) {
      out.returns().offered(message);
      return;
    }
    boolean answer = message.inReplyTo() != 0;
    message.close();
    if (answer) out.returns().answerRead();
  }

  private final class Fillable implements Invocable.Task {
    @Override
    public void run() {
      getFillInterest().fillable();
    }

    @Override
    public InvocationType getInvocationType() {
      return getFillInterest().getCallbackInvocationType();
    }
  }

  /** Completes a write; then what follows from that, and from the message that has told of it. */
  private final class Completion implements Step {
    private final List<Runnable> following = new ArrayList<>(2);

    Completion(Runnable task) {
      if (task != null) following.add(task);
    }

    @Override
    public void run() {
      try {
        CompletionExecutor.complete(completeWrite, following);
      } catch (RuntimeException problem) {
        fail(new IOException(problem));
      }
    }

    @Override
    public List<Runnable> following() {
      return following;
    }
  }

  private final class CompleteWrite implements Invocable.Task {
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
