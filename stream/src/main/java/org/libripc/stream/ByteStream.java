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
 * <p>Nothing here waits. {@link #read} takes what has come, and {@link #onReadable} tells when
 * there is more. A {@link #write} is complete when its buffers are the writer's again. For what is
 * small that is at once, for the rest when the other side has taken it. A peer that does not read
 * stops the writer.
 *
 * <p>One thread at a time reads, and one writes. The rest is for any thread. It is to be closed.
 */
public final class ByteStream implements AutoCloseable {
  /** For what is built on a stream and has a life of its own, such as a connection of a server. */
  public interface Listener {
    /** The other side has said something. In the thread that receives: does not block. */
    void used();

    /** The service ends: closes the stream now. */
    void stopping();
  }

  private static final long PROBE_NANOS = TimeUnit.SECONDS.toNanos(5);

  private final Multiplexer multiplexer;
  private final ServiceId peer;
  private final int number;
  private final Connecting connecting; // null at the side that accepts
  private final Frame opening; // null at the side that connects
  private final Inbound in = new Inbound(this::finished);
  private final Outbound out;
  private final AtomicReference<Runnable> reader = new AtomicReference<>();
  private final AtomicBoolean writes = new AtomicBoolean(); // a write() is not complete
  private volatile Runnable writer;
  private volatile Listener listener;
  private volatile Peer provenPeer; // null: nothing has come yet
  private volatile long usedAt = System.nanoTime();
  // A thread finds itself here only if it is the one that receives, in received().
  private Thread receiving;
  private boolean mayWrite; // that thread's
  // What tells the other side, once closed, that this one is alive no more.
  private final AtomicReference<Message> life = new AtomicReference<>();
  private final AtomicBoolean accepted = new AtomicBoolean(); // or given up before
  private final AtomicBoolean closed = new AtomicBoolean();

  /** One that connects, or has been opened by the other side: null is the other one. */
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
   * Who is at the other end, as it was proven, while {@link #peer} is that side's own word. Unknown
   * until something has come from there. What others send in its name is dropped.
   */
  public Peer provenPeer() {
    Peer known = provenPeer;
    return known == null ? Peer.UNKNOWN : known;
  }

  /** Whether a message that names this stream is of the one at its other end. */
  boolean isFromPeer(Message message) {
    Peer from = message.peer();
    Peer known = provenPeer;
    if (known == null) provenPeer = from;
    return known == null || known.canBe(from);
  }

  /** The number that the side that connects has given it, not 0. */
  public int number() {
    return number;
  }

  /** The service at this end. */
  public Service service() {
    return multiplexer.service;
  }

  /** How it uses memory and time. */
  public StreamOptions options() {
    return multiplexer.options;
  }

  /** Runs a task in a thread of the executor; some milliseconds later if that is full. */
  public void execute(Runnable task) {
    multiplexer.execute(task);
  }

  /** Whether it is not closed. It may be broken: reads and writes tell. */
  public boolean isOpen() {
    return !closed.get();
  }

  /** Null: none, as at first. */
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
   * Copies what has come into a buffer, from its position on.
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
   * Runs a task once, as soon as {@link #read} would return something else than 0. It replaces the
   * one before. Null: no task any more.
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
   * Writes buffers, which stay as they are until the future is complete. It fails with the {@link
   * IOException} that has broken the stream. What depends on it may run in the thread that writes,
   * and later in one of the executor.
   *
   * @throws IllegalStateException if the write before is not complete
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
    }
    writes.set(false);
    if (broken == null) {
      written.complete(null);
    } else {
      written.completeExceptionally(broken);
    }
  }

  /**
   * Sends what can be sent now. The positions of the buffers move over what is the writer's again.
   * The next call has the same buffers with the rest, after {@link #onWritable}. Not beside {@link
   * #write}.
   *
   * @param lent whether the buffers stay as they are until that call; else all that goes is copied
   * @return whether all is the writer's again
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
   * Says of a buffer that its bytes do not change any more, and that its memory is leased from the
   * context. The next write need not wait until the other side has taken them: the stream keeps the
   * memory. Null: no such buffer any more.
   */
  public void give(ByteBuffer buffer) {
    out.give(buffer);
  }

  /** Ends the bytes to the other side, which may go on. */
  public void shutdownOutput() {
    out.end();
  }

  /** The write may go on; from any thread, with the lock of the sending half held. */
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
   * At the side that accepts: tells the other one that the stream is open. Once; it comes before
   * the first write.
   */
  public void accept() {
    if (opening == null || accepted.getAndSet(true)) return;
    out.window(opening.window());
    out.control(Frame.Type.ACCEPT, 0, Frame.Reason.NONE);
    scheduleProbe();
  }

  /**
   * Ends both directions. What was written is still delivered, also if this process ends the
   * service next; a write that is not complete fails, and the other side is told.
   */
  @Override
  public void close() {
    if (closed.getAndSet(true)) return;
    out.close(in.isAtEnd());
    in.close();
    dropLife();
    multiplexer.remove(this);
    refused(new ClosedChannelException());
    wakeReader();
  }

  /** The service ends. */
  void stop() {
    Listener current = listener;
    if (current != null) current.stopping();
    close();
  }

  /** It is broken: reads fail after what has come, writes at once. Any thread. */
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

  /** Keeps a message of the other side until the stream is closed here. */
  void keep(Message message) {
    life.set(message);
    if (closed.get()) dropLife();
  }

  private void dropLife() {
    Message held = life.getAndSet(null);
    if (held != null) held.close();
  }

  // Where no ticket tells of the death of the other side, a message to it does.
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
   * The other side holds nothing of the stream any more. Its last word is on its way, or it has
   * ended without one: then nobody takes, or knows, what is sent now. Any thread.
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
   * A message for the stream, which it takes over. From the thread that receives.
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
    if (StreamTask.of(writer) == StreamTask.Blocking.NEVER) {
      return new Completion(this::completeWrite, task);
    }
    // Either may wait for the other.
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
    // A probe of the other side is no use of the stream.
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

  // Its bytes were read.
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
