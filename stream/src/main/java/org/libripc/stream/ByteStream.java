// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.libripc.Message;
import org.libripc.Peer;
import org.libripc.Service;
import org.libripc.ServiceId;
import org.libripc.ViewKind;

/**
 * One end of a stream of bytes between two services, in both directions. {@link
 * StreamService#connect} opens one, a {@link StreamAcceptor} gets the other end.
 *
 * <p>No method waits. {@link #read} takes the bytes that have come, and {@link #onReadable} reports
 * when there are more. A {@link #write} is complete when its buffers are the writer's again: at
 * once for small data, else when the other side has taken it. A peer that does not read stops the
 * writer.
 *
 * <p>One thread at a time reads, and one writes. Any thread may call the other methods. Close it
 * after use.
 */
public final class ByteStream implements AutoCloseable {
  /**
   * For objects that are built on a stream and have their own life cycle, such as a server's
   * connections.
   */
  public interface Listener {
    /** The other side has sent something. Called in the receiving thread: must not block. */
    void used();

    /** The service is ending, or the acceptor has failed: must close the stream now. */
    void stopping();
  }

  private static final long PROBE_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final Multiplexer multiplexer;
  private final ServiceId peer;
  private final int number;
  private final Connecting connecting; // null on the side that accepts
  private final Frame opening; // null on the side that connects
  private final Inbound in = new Inbound(this::finished);
  private final Outbound out;
  private final AtomicReference<Runnable> reader = new AtomicReference<>();
  private final AtomicBoolean writes = new AtomicBoolean(); // a write() is not complete
  private volatile Runnable writer;
  private volatile Listener listener;
  private volatile Peer provenPeer; // null: nothing has come yet
  private volatile long usedAt = System.nanoTime();
  // A thread finds itself in this field only if it is the receiving thread, inside received().
  private Thread receiving;
  private boolean mayWrite; // used only by that thread
  // A message whose close tells the other side that this side is no longer alive.
  private final AtomicReference<Message> life = new AtomicReference<>();
  private final AtomicBoolean accepted = new AtomicBoolean(); // or given up before that
  private final AtomicBoolean closed = new AtomicBoolean();

  /**
   * A stream that connects, or that the other side has opened: the argument for the other case is
   * null.
   */
  ByteStream(
      Multiplexer multiplexer, ServiceId peer, int number, Connecting connecting, Frame opening) {
    this.multiplexer = multiplexer;
    this.peer = peer;
    this.number = number;
    this.connecting = connecting;
    this.opening = opening;
    out = new Outbound(this, multiplexer, connecting != null);
  }

  /** The service at the other end. */
  public ServiceId peer() {
    return peer;
  }

  /**
   * The proven identity of the other end, while {@link #peer} is only what that side claims.
   * Unknown until something has come from there. Messages that others send in its name are dropped.
   */
  public Peer provenPeer() {
    Peer known = provenPeer;
    return known == null ? Peer.UNKNOWN : known;
  }

  /** Whether a message that names this stream comes from the peer at its other end. */
  boolean isFromPeer(Message message) {
    Peer from = message.peer();
    Peer known = provenPeer;
    if (known == null) provenPeer = from;
    return known == null || known.canBe(from);
  }

  /** The stream's number, which the connecting side has chosen; never 0. */
  public int number() {
    return number;
  }

  /** The service at this end. */
  public Service service() {
    return multiplexer.service;
  }

  /** How the stream uses memory and time. */
  public StreamOptions options() {
    return multiplexer.options;
  }

  /**
   * Runs a task in a thread of the executor; some milliseconds later if that is full. After the end
   * of the service, it gets a thread of its own then.
   */
  public void execute(Runnable task) {
    multiplexer.execute(task);
  }

  /** Whether it is not closed. It may be broken, which reads and writes report. */
  public boolean isOpen() {
    return !closed.get();
  }

  /** Sets the listener; null, the default: none. */
  public void listen(Listener to) {
    listener = to;
  }

  Outbound out() {
    return out;
  }

  long consumed() {
    return in.consumed();
  }

  // ---- Reading ----

  /**
   * Copies bytes that have come into a buffer, from its position on.
   *
   * @return how many bytes; 0 if there are none now, -1 at the end of the stream
   * @throws IOException why there will be no more, after the last byte that has come
   */
  public int read(ByteBuffer to) throws IOException {
    int count = in.read(to);
    if (count > 0) {
      usedAt = System.nanoTime();
      out.credit(in.progress(), false);
    } else if (count == 0) {
      out.credit(in.progress(), true);
    }
    return count;
  }

  /**
   * Runs a task once, as soon as {@link #read} would not return 0. It replaces the previous task.
   * Null: removes the task.
   */
  public void onReadable(Runnable task) {
    reader.set(task);
    if (!in.isReadable()) return;
    Runnable now = reader.getAndSet(null);
    if (now != null && !StreamTask.defer(now)) multiplexer.execute(now);
  }

  private void wakeReader() {
    Runnable task = reader.getAndSet(null);
    if (task != null) multiplexer.execute(task);
  }

  // ---- Writing ----

  /**
   * Writes buffers, which must not change until the future is complete. The future fails with the
   * {@link IOException} that has broken the stream. Dependent actions may run in the writing
   * thread, or later in a thread of the executor.
   *
   * @throws IllegalStateException if the previous write is not complete
   */
  public CompletableFuture<Void> write(ByteBuffer... buffers) {
    if (writes.getAndSet(true))
      throw new IllegalStateException("The write before is not complete: wait for its future.");
    CompletableFuture<Void> written = new CompletableFuture<>();
    goOn(written, buffers);
    return written;
  }

  private void goOn(CompletableFuture<Void> written, ByteBuffer... buffers) {
    Exception broken = null;
    try {
      if (!flush(true, buffers)) {
        onWritable(() -> goOn(written, buffers));
        return;
      }
    } catch (IOException | RuntimeException problem) {
      broken = problem;
    } catch (Error problem) { // nobody knows what was sent
      IOException failure = new IOException(problem);
      fail(failure);
      broken = failure;
    }
    writes.set(false);
    if (broken == null) {
      written.complete(null);
    } else {
      written.completeExceptionally(broken);
    }
  }

  /**
   * Sends what can be sent now. The positions of the buffers move over the bytes that are the
   * writer's again. The next call, after {@link #onWritable}, must pass the same buffers with the
   * rest. Do not use it together with {@link #write}.
   *
   * @param lent whether the buffers do not change until that call; else everything that is sent is
   *     copied
   * @return whether all bytes are the writer's again
   * @throws IOException if the stream is broken, or its output was shut down
   */
  public boolean flush(boolean lent, ByteBuffer... buffers) throws IOException {
    long before = GatherList.remaining(buffers);
    boolean complete = out.flush(buffers, lent);
    if (GatherList.remaining(buffers) < before) usedAt = System.nanoTime();
    return complete;
  }

  /** Runs a task once, as soon as {@link #flush} can go on, or fails. */
  public void onWritable(Runnable task) {
    writer = task;
    out.await();
  }

  /**
   * Promises that a buffer's bytes will not change, and that its memory is leased from the context.
   * The next write need not wait until the other side has taken them: the stream keeps the memory.
   * Null: takes the promise back.
   */
  public void give(ByteBuffer buffer) {
    out.give(buffer);
  }

  /** Ends the bytes to the other side after the write under way. That side may still send. */
  public void shutdownOutput() {
    out.end();
  }

  /** Called when the write may go on; by any thread, with the lock of the sending half held. */
  void wakeWriter() {
    if (Thread.currentThread() == receiving) {
      mayWrite = true;
    } else {
      multiplexer.execute(writer);
    }
  }

  private void completeWrite() {
    try {
      writer.run();
    } catch (RuntimeException problem) {
      fail(new IOException(problem));
    }
  }

  // ---- Beginning and end ----

  /**
   * On the side that accepts: tells the other side that the stream is open. Has an effect once;
   * must come before the first write.
   */
  public void accept() {
    if (opening == null || accepted.getAndSet(true)) return;
    out.window(opening.window());
    out.control(Frame.Type.ACCEPT, 0, Frame.Reason.NONE);
    scheduleProbe();
  }

  /**
   * Ends both directions. Completed writes are still delivered, even if this process ends the
   * service next. A write that is not complete fails, and the other side is told.
   */
  @Override
  public void close() {
    if (closed.getAndSet(true)) return;
    boolean complete = in.isAtEnd();
    in.close(); // first: a reader must not find memory that the other half gives back
    out.close(complete);
    dropLife();
    multiplexer.remove(this);
    refused(new ClosedChannelException());
    wakeReader();
  }

  /** Called when the service ends, or the acceptor has failed. */
  void stop() {
    Listener current = listener;
    if (current != null) current.stopping();
    close();
  }

  /**
   * Breaks the stream: reads fail after the bytes that have come, writes fail at once. Any thread.
   */
  void fail(IOException cause) {
    assert !out.isHeld() : "the reader's lock comes first";
    in.fail(cause);
    out.fail(cause);
    refused(cause);
    wakeReader();
  }

  private void refused(IOException cause) {
    if (!accepted.getAndSet(true) && connecting != null) connecting.refused(cause);
  }

  /** Keeps a message of the other side until this side closes the stream. */
  void keep(Message message) {
    life.set(message);
    if (closed.get()) dropLife();
  }

  private void dropLife() {
    Message held = life.getAndSet(null);
    if (held != null) held.close();
  }

  // If no ticket would report the death of the other side, a message to it does.
  private void scheduleProbe() {
    if (!isOpen() || !out.needsProbes()) return;
    multiplexer.executor.schedule(
        () -> multiplexer.execute(this::probe), PROBE_NANOS, TimeUnit.NANOSECONDS);
  }

  private void probe() {
    if (!isOpen()) return;
    if (System.nanoTime() - usedAt >= PROBE_NANOS)
      out.control(Frame.Type.CREDIT, 0, Frame.Reason.NONE);
    scheduleProbe();
  }

  /**
   * Called when the other side no longer holds anything of the stream. Its last message is on its
   * way, or it has ended without one: then nobody takes what is sent now. Any thread.
   */
  void givenBack() {
    if (!accepted.get()) return;
    multiplexer.execute(
        () -> {
          if (isOpen()) out.control(Frame.Type.CREDIT, 0, Frame.Reason.NONE);
        });
  }

  // ---- The multiplexer ----

  /**
   * Takes over a message for the stream. Called by the receiving thread.
   *
   * @return the task to run for it; null if there is none
   */
  Runnable received(Message message, Frame frame) {
    Runnable task;
    receiving = Thread.currentThread();
    try {
      task = take(message, frame);
    } catch (Throwable problem) {
      if (mayWrite) multiplexer.execute(writer); // nothing else wakes it
      mayWrite = false;
      throw problem;
    } finally {
      receiving = null;
    }
    if (!mayWrite) return task;
    mayWrite = false;
    // A request often shows that the previous response was taken; the task that waits for this then
    // reads the request.
    if (StreamTask.of(writer) == StreamTask.Blocking.NEVER) {
      return new Completion(this::completeWrite, task);
    }
    // Each of the two tasks may wait for the other.
    if (task == null) return writer;
    multiplexer.execute(writer);
    return task;
  }

  private void used() {
    usedAt = System.nanoTime();
    Listener current = listener;
    if (current != null) current.used();
  }

  private Runnable take(Message message, Frame frame) {
    // A probe by the other side does not count as use of the stream.
    if (frame.type() != Frame.Type.CREDIT || out.isNews(frame.consumed())) used();
    boolean sane = out.acknowledge(frame.consumed());
    out.poll();
    switch (frame.type()) {
      case ACCEPT -> {
        if (connecting != null && !accepted.getAndSet(true)) {
          keep(message);
          out.window(frame.window());
          scheduleProbe();
          connecting.accepted();
          return null;
        }
        message.close();
        sane = false;
      }
      case DATA, CLOSE -> {
        if (!accepted.get() && connecting != null) {
          message.close();
          fail(new IOException("The server has closed the connection before it was accepted"));
          return null;
        }
        if (message.inReplyTo() != 0) answered(message);
        out.heard(frame.has(Frame.AWAITED));
        sane &= in.accept(message, frame, multiplexer.options.window());
        if (sane && frame.type() == Frame.Type.CLOSE) {
          out.fail(new EOFException("the other side has closed the connection"));
        }
      }
      case RESET -> {
        message.close();
        fail(new IOException("The connection to " + peer + " " + frame.reason().text));
        return null;
      }
      default -> message.close();
    }
    if (!sane) {
      out.control(Frame.Type.RESET, 0, Frame.Reason.PROTOCOL);
      fail(new IOException("The connection to " + peer + " broke the protocol"));
      return null;
    }
    return in.isReadable() ? reader.getAndSet(null) : null;
  }

  private void answered(Message message) {
    out.returnBuffers().answered(message.inReplyTo());
    if (message.kind(message.itemCount() - 1) == ViewKind.RETURNED)
      multiplexer.returned.increment();
  }

  // Called when the message's bytes were read.
  private void finished(Message message) {
    if (message.returnCount() != 0) {
      out.returnBuffers().offered(message);
      return;
    }
    boolean answer = message.inReplyTo() != 0;
    message.close();
    if (answer) out.returnBuffers().answerRead();
  }

  @Override
  public String toString() {
    return "{in:" + in + "}{out:" + out + "}";
  }
}
