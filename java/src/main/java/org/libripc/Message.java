// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;
import org.libripc.internal.Chunk;
import org.libripc.internal.Layout.Record;
import org.libripc.internal.Layout.View;
import org.libripc.internal.Leaks;

/**
 * A received message. It belongs to the receiver until {@link #close}; every later call throws
 * {@link IllegalStateException}.
 *
 * <p>{@link #kind} says where an item is. A view of a short item ({@link #item}) shows memory of
 * the JVM. If it is used after the close, it may show other bytes, but does no other harm. Views of
 * windows and return buffers show the application's own memory. Lent items are in the sender's
 * memory: {@link #item} and {@link #copyTo} copy them out, {@link #borrow} does not.
 *
 * <p>Any thread, one at a time; {@link #close} also while another thread is in a call.
 */
public final class Message implements AutoCloseable {
  // An AtomicInteger would be garbage of each message.
  private static final AtomicIntegerFieldUpdater<Message> STATE =
      AtomicIntegerFieldUpdater.newUpdater(Message.class, "state");
  private static final int OPEN = 1;

  private final Service service;
  private final boolean reused; // one of a MessageBatch
  private Chunk chunk;
  private ByteBuffer bytes;
  private int offset;
  private int itemCount;
  private NativeMessage handle;
  private Cleaner.Cleanable cleanable;
  private ReceiveWindow[] windows;
  private ReturnBuffer[] returned;
  private ByteBuffer[] copies; // of items that are not in the record
  private ByteBuffer[] views;

  private volatile int state;

  Message(Service service, boolean reused) {
    this.service = service;
    this.reused = reused;
  }

  /**
   * Takes over the record at an offset. Returns its size.
   *
   * @param core of the service; this message refers to the service only if it is to be given to
   *     somebody
   */
  int load(ServiceCore core, Chunk records, int at) {
    long address = begin(core, records, at);
    long request = bytes.getLong(at + Record.IN_REPLY_TO);
    if (request != 0)
      takeReturned(core.requestAnswered(request, bytes.getLong(at + Record.SOURCE)));
    if (address != 0) takeHandle(core, address);
    STATE.lazySet(this, OPEN);
    return bytes.getInt(at + Record.RECORD_SIZE);
  }

  /**
   * Like {@link #load}, with the arguments of a request, or with an answer.
   *
   * @param buffers of the call that was answered; null if it had none
   * @param request whose message it is; null: the message is the reader's
   */
  void loadCall(
      ServiceCore core, Chunk records, int at, ReturnBuffer[] buffers, IncomingCall request) {
    long address = begin(core, records, at);
    takeReturned(buffers);
    if (request != null) {
      handle = request;
      request.lent = address == 0 ? null : lentItems();
    } else if (address != 0) {
      takeAnswer(core, address);
    }
    STATE.lazySet(this, OPEN);
  }

  // Only this message refers to the handle, so it cannot be lost before somebody else has the
  // message.
  private void takeAnswer(ServiceCore core, long address) {
    NativeMessage.Lent[] lent = lentItems();
    if (lent != null && core.ripc().guard().tryEnter()) {
      handle = new MessageHandle(core.ripc(), address);
      handle.lent = lent;
    } else {
      core.binding().releaseMessage(address);
    }
  }

  /** Moves the content into a message that keeps it, and closes this one. */
  Message own(NativeMessage newHandle) {
    Message own = new Message(service, false);
    own.chunk = chunk;
    own.bytes = bytes;
    own.offset = offset;
    own.itemCount = itemCount;
    own.returned = returned;
    own.copies = copies;
    own.handle = newHandle;
    if (newHandle instanceof MessageHandle net) own.cleanable = Leaks.CLEANER.register(own, net);
    chunk.retain(1);
    STATE.lazySet(this, 0);
    STATE.lazySet(own, OPEN);
    return own;
  }

  private long begin(ServiceCore core, Chunk records, int at) {
    if (chunk != records) {
      chunk = records;
      bytes = records.block.bytes;
      views = null;
    }
    offset = at;
    itemCount = bytes.getInt(at + Record.ITEM_COUNT);
    handle = null;
    cleanable = null;
    windows = null;
    returned = null;
    copies = null;
    long address = bytes.getLong(at + Record.MESSAGE);
    for (int index = 0; index < itemCount; ++index) {
      int view = viewAt(index);
      switch (bytes.getInt(view + View.KIND)) {
        case View.WINDOW -> takeWindow(core, index, view);
        case View.SHORT -> {
          if (address != 0 && !isInRecords(view)) takeBytesOf(core, index, view);
        }
        default -> {}
      }
    }
    return address;
  }

  private void takeWindow(ServiceCore core, int index, int view) {
    ReceiveWindow window = core.ripc().windowFilled(bytes.getLong(view + View.COOKIE));
    if (window == null) return;
    if (windows == null) windows = new ReceiveWindow[itemCount];
    windows[index] = window;
    if (!window.landed(bytes.getLong(view + View.SIZE))) lost(view, Status.CANCELLED);
    window.returned();
  }

  private void takeReturned(ReturnBuffer[] buffers) {
    returned = buffers;
    if (buffers == null) return;
    for (int index = 0; index < itemCount; ++index) {
      int view = viewAt(index);
      if (bytes.getInt(view + View.KIND) != View.RETURNED) continue;
      ReturnBuffer buffer = returned[bytes.getInt(view + View.RETURN_INDEX)];
      if (!buffer.landed(bytes.getLong(view + View.SIZE))) lost(view, Status.CANCELLED);
    }
    for (ReturnBuffer buffer : returned) buffer.returned();
  }

  // The view looks as native code leaves it when memory is gone.
  private void lost(int view, Status why) {
    bytes.putInt(view + View.KIND, View.FAILED);
    bytes.putInt(view + View.STATUS, why.code());
  }

  /** The bytes of the short items that found no room in the record. */
  int bytesBeside() {
    int bytes = 0;
    if (copies != null) for (ByteBuffer copy : copies) if (copy != null) bytes += copy.capacity();
    return bytes;
  }

  // If not, the item found no room there, and is in the native message.
  private boolean isInRecords(int view) {
    long at = bytes.getLong(view + View.DATA) - chunk.block.address;
    return at >= 0 && at <= bytes.capacity();
  }

  private void takeBytesOf(ServiceCore core, int index, int view) {
    try {
      takeBytes(core, index, view);
    } catch (OutOfMemoryError none) {
      // A receive that returns one message finds it again. In other records the others, and the
      // ends of calls, would be lost with it.
      if (!reused) throw none;
      lost(view, Status.NO_MEMORY);
    }
  }

  private void takeBytes(ServiceCore core, int index, int view) {
    long size = bytes.getLong(view + View.SIZE);
    ByteBuffer copy = ByteBuffer.allocateDirect(Math.toIntExact(size));
    core.binding().copy(core.binding().addressOf(copy), bytes.getLong(view + View.DATA), size);
    if (copies == null) copies = new ByteBuffer[itemCount];
    copies[index] = copy.asReadOnlyBuffer();
  }

  private void takeHandle(ServiceCore core, long address) {
    NativeMessage.Lent[] lent = lentItems();
    boolean needed = lent != null || bytes.getInt(offset + Record.RETURN_COUNT) != 0;
    if (needed && core.ripc().guard().tryEnter()) {
      MessageHandle made = new MessageHandle(core.ripc(), address);
      made.lent = lent;
      handle = made;
      cleanable = Leaks.CLEANER.register(this, made);
    } else {
      core.binding().releaseMessage(address);
    }
  }

  private NativeMessage.Lent[] lentItems() {
    NativeMessage.Lent[] lent = null;
    for (int index = 0; index < itemCount; ++index) {
      int view = viewAt(index);
      if (bytes.getInt(view + View.KIND) != View.LENT) continue;
      if (lent == null) lent = new NativeMessage.Lent[itemCount];
      lent[index] =
          new NativeMessage.Lent(bytes.getLong(view + View.DATA), bytes.getLong(view + View.SIZE));
    }
    return lent;
  }

  private int viewAt(int index) {
    return offset + Record.BYTES + index * View.BYTES;
  }

  private int open(int index) {
    open();
    if (index < 0 || index >= itemCount) throw new IndexOutOfBoundsException(index);
    return viewAt(index);
  }

  private void open() {
    if (state != OPEN) {
      throw new IllegalStateException("This message was closed: it cannot be used any more.");
    }
  }

  /** The service that received it. */
  public Service service() {
    return service;
  }

  /** Who sent it. */
  public ServiceId source() {
    open();
    return service.core().idOfPeer(bytes.getLong(offset + Record.SOURCE));
  }

  /** The number that the sender gave it. */
  public int tag() {
    open();
    return bytes.getInt(offset + Record.TAG);
  }

  /** How many items it has. */
  public int itemCount() {
    open();
    return itemCount;
  }

  /** Where an item is. */
  public ViewKind kind(int index) {
    return switch (bytes.getInt(open(index) + View.KIND)) {
      case View.WINDOW -> ViewKind.WINDOW;
      case View.LENT -> ViewKind.LENT;
      case View.RETURNED -> ViewKind.RETURNED;
      case View.FAILED -> ViewKind.FAILED;
      default -> ViewKind.SHORT;
    };
  }

  /** {@link Status#OK}, or why an item is missing. */
  public Status status(int index) {
    return Status.of(bytes.getInt(open(index) + View.STATUS));
  }

  /** The size of an item in bytes; the announced size if the item is missing. */
  public long size(int index) {
    return bytes.getLong(open(index) + View.SIZE);
  }

  /** How many times libripc's native part has copied the bytes on this side. */
  public int copies(int index) {
    return bytes.getInt(open(index) + View.COPIED);
  }

  /**
   * The bytes of an item, from position to limit. Read only, except in windows and return buffers,
   * which are the application's memory. A lent item is copied (once, the first time). Messages of a
   * {@link MessageBatch} return the same buffer each time, whose position need not be 0.
   *
   * @throws IllegalStateException if the item is missing ({@link #status}) or larger than 2 GB
   *     ({@link #copyTo})
   */
  public ByteBuffer item(int index) {
    int view = open(index);
    int kind = bytes.getInt(view + View.KIND);
    long size = bytes.getLong(view + View.SIZE);
    if (kind == View.SHORT && (copies == null || copies[index] == null)) {
      int at = (int) (bytes.getLong(view + View.DATA) - chunk.block.address);
      return shortItem(index, at, (int) size);
    }
    if (kind == View.FAILED) {
      throw new IllegalStateException(
          "Item " + index + " is missing (" + status(index) + "): look at status() first.");
    }
    if (size > Integer.MAX_VALUE) {
      throw new IllegalStateException(
          "Item " + index + " is too large for one buffer: take it with copyTo().");
    }
    if (kind == View.WINDOW) {
      if (windows == null || windows[index] == null)
        throw new IllegalStateException("This window is gone.");
      return windows[index].buffer().slice(0, (int) size);
    }
    if (kind == View.RETURNED) {
      int buffer = bytes.getInt(view + View.RETURN_INDEX);
      if (returned == null)
        throw new IllegalStateException("The request that this answers was given up.");
      return returned[buffer].buffer().slice(0, (int) size);
    }
    return copiedItem(index, size);
  }

  private ByteBuffer shortItem(int index, int at, int size) {
    if (!reused) return chunk.readOnly.slice(at, size);
    if (views == null || views.length < itemCount) views = new ByteBuffer[Math.max(4, itemCount)];
    ByteBuffer view = views[index];
    if (view == null) views[index] = view = chunk.readOnly.duplicate();
    return view.clear().position(at).limit(at + size);
  }

  private ByteBuffer copiedItem(int index, long size) {
    if (copies == null) copies = new ByteBuffer[itemCount];
    if (copies[index] == null) {
      ByteBuffer copy = ByteBuffer.allocateDirect((int) size);
      copyTo(index, 0, copy);
      copies[index] = copy.flip().asReadOnlyBuffer();
    }
    return copies[index].duplicate();
  }

  /**
   * Copies bytes of an item, starting at {@code from}: as many as there are and as {@code to} has
   * room for. Advances the position of {@code to}. For lent items this is the only copy.
   *
   * @return how many
   */
  public int copyTo(int index, long from, ByteBuffer to) {
    int view = open(index);
    if (to.isReadOnly()) throw new ReadOnlyBufferException(); // a mapped one would not notice
    if (bytes.getInt(view + View.KIND) == View.LENT) return lent().copyTo(index, from, to);
    long size = bytes.getLong(view + View.SIZE);
    NativeMessage.checkFrom(from, size);
    int count = (int) Math.min(size - from, to.remaining());
    ByteBuffer item = item(index);
    FileMemory.copy(to, item.slice(item.position() + (int) from, count));
    return count;
  }

  private NativeMessage lent() {
    if (handle == null) throw new IllegalStateException("The context is closed.");
    return handle;
  }

  /**
   * A view of a lent item in place, without a copy; read only. For other items the same as {@link
   * #item}.
   *
   * <p>Drop it before you close the message. Afterwards it shows whatever the sender, or the pool,
   * has written into the memory. That memory stays readable as long as the buffer can be reached.
   * Items that came over sockets or RDMA are in memory of the pool, which gets it back only when no
   * buffer can be reached.
   */
  public ByteBuffer borrow(int index) {
    int view = open(index);
    return bytes.getInt(view + View.KIND) == View.LENT ? lent().borrow(index) : item(index);
  }

  /** The window that an item is in; null if it is in none. */
  public ReceiveWindow window(int index) {
    open(index);
    return windows == null ? null : windows[index];
  }

  /**
   * The proven identity of the sender. {@link #source} is what the sender claims. Messages of one
   * sender have the same object.
   */
  public Peer peer() {
    open();
    boolean here = bytes.getInt(offset + Record.PEER_IS_ON_THIS_HOST) != 0;
    long user = Integer.toUnsignedLong(bytes.getInt(offset + Record.PEER_USER));
    // The message of a request has no service.
    RipcCore ripc = service != null ? service.core().ripc() : handle.ripc;
    return ripc.peerAt(bytes.getLong(offset + Record.PEER_IDENTITY), here ? user : -1);
  }

  /** The {@link Outgoing#requestId} of the request that this answers; 0 if none. */
  public long inReplyTo() {
    open();
    return bytes.getLong(offset + Record.IN_REPLY_TO);
  }

  /** How many return buffers the sender has attached. */
  public int returnCount() {
    open();
    return bytes.getInt(offset + Record.RETURN_COUNT);
  }

  /** The room in one of them, in bytes. */
  public long returnSize(int index) {
    if (index < 0 || index >= returnCount()) throw new IndexOutOfBoundsException(index);
    return bytes.getLong(offset + Record.BYTES + itemCount * View.BYTES + 8 * index);
  }

  /**
   * The native message to reply to, which the caller leaves afterwards; null if the source is all
   * that a reply needs.
   */
  NativeMessage handle() {
    open();
    return handle;
  }

  /** Gives the message back: short items and lent views end here. */
  @Override
  public void close() {
    if (reused && handle == null) {
      // Only one thread uses the batch, and the message has nothing that could be given back twice.
      STATE.lazySet(this, 0);
      return;
    }
    if (!STATE.compareAndSet(this, OPEN, 0)) return;
    if (handle != null) {
      handle.close();
      if (cleanable != null) cleanable.clean();
    }
    if (!reused) chunk.release();
  }
}
