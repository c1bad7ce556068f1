// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;
import org.libripc.internal.Binding;
import org.libripc.internal.Layout;

/**
 * A message to send: up to 64 items, a tag, return buffers. An object that is made once and reused
 * ({@link #clear}) makes no garbage. One thread at a time: otherwise a thread may get an {@link
 * IllegalStateException}, or send a mixture of messages, but no other harm is done.
 *
 * <p>An item is a buffer from its position to its limit at the time it is added, and neither is
 * moved. Its bytes must not change between {@link #add} and the return of the send. Then they are
 * the caller's again, ticket or not: items that do not fit into the message travel from a copy.
 * Only items added with {@link #borrow}, or as {@link ItemKind#LONG} from a direct buffer, are read
 * in place until the ticket is complete.
 *
 * <p>{@link #add} already copies {@link ItemKind#AUTO} and {@link ItemKind#SHORT} items that are in
 * a heap buffer or have up to {@value #INLINE_ITEM} bytes. It does so as long as these copies have
 * up to 4 KiB in all.
 *
 * <p>A buffer over a mapped file may lie beyond the end of the file, if somebody has made the file
 * shorter. Then {@link #add} or the send throws a {@link RipcException} with {@link
 * Status#INVALID_ARGUMENT}, or the ticket is cancelled.
 */
public final class Outgoing {
  /** {@link #add} copies short items up to this size, while there is room for them. */
  public static final int INLINE_ITEM = 1024;

  // Copying a larger item twice costs more than asking for the size limit of short items.
  private static final int MOST_COPIED_TWICE = 64 << 10;

  private static final int AUTO = ItemKind.AUTO.ordinal();
  private static final int SHORT = ItemKind.SHORT.ordinal();
  private static final int LONG = ItemKind.LONG.ordinal();
  private static final int RETURN = ItemKind.RETURN.ordinal();

  final OutgoingMemory memory = new OutgoingMemory();
  private final ByteBuffer bytes = memory.bytes;
  private final ByteBuffer[]
      sources = // only of items that are not inline: storing a reference is not cheap
      new ByteBuffer[Layout.MAX_ITEMS];
  private final RegisteredBuffer[] leases = new RegisteredBuffer[Layout.MAX_ITEMS];
  // Where an item's bytes were in its source when it was added: the application may change the
  // buffer.
  private final int[] positions = new int[Layout.MAX_ITEMS];
  private final int[] sizes = new int[Layout.MAX_ITEMS];
  // Where an item's copy is; -1: it is not inline.
  private final int[] inlineAt = new int[Layout.MAX_ITEMS];
  private final int[] kinds = new int[Layout.MAX_ITEMS];
  private final int[] returnIndexes = new int[Layout.MAX_ITEMS];
  private final ReturnBuffer[] attached = new ReturnBuffer[Layout.MAX_RETURNS];
  private final AtomicBoolean inUse = new AtomicBoolean();
  private int count;
  private int returnCount;
  private boolean referring;
  private boolean quiet;
  private boolean unordered;
  private int inlineUsed;
  private int tag;
  private long timeout = Layout.DEFAULT_TIME;
  private long requestId;
  private GroupOutcome outcome;

  /** An empty message. */
  public Outgoing() {}

  /** Empties it. Returns this. */
  public Outgoing clear() {
    if (referring) {
      Arrays.fill(sources, 0, count, null);
      Arrays.fill(leases, 0, count, null);
    }
    if (returnCount != 0) Arrays.fill(attached, 0, returnCount, null);
    referring = false;
    quiet = false;
    unordered = false;
    count = 0;
    returnCount = 0;
    inlineUsed = 0;
    tag = 0;
    timeout = Layout.DEFAULT_TIME;
    return this;
  }

  /** A number for the receiver; the application gives it a meaning. Returns this. */
  public Outgoing tag(int number) {
    tag = number;
    return this;
  }

  /**
   * Lets the message be delivered as soon as it is complete. It does not wait for earlier messages
   * of its sender whose long items are still on their way, nor do later messages wait for it. Not
   * for groups. Returns this.
   */
  public Outgoing unordered() {
    unordered = true;
    return this;
  }

  /**
   * How long a message with long items may take; 30 seconds if it is not set, without a limit for
   * {@link Long#MAX_VALUE}. Returns this.
   */
  public Outgoing timeout(long time, TimeUnit unit) {
    if (time <= 0) throw new IllegalArgumentException("the time must be more than 0");
    timeout = time == Long.MAX_VALUE ? Layout.FOREVER : unit.toNanos(time);
    return this;
  }

  /**
   * Asks for no notice when the peer has taken the long items. This saves both sides a message and
   * the wake-up of a thread. The ticket completes when {@link Ticket#poll} or {@link
   * Service#settle} notices, or the service ends; until then it keeps the memory. Returns this.
   */
  public Outgoing quiet() {
    quiet = true;
    return this;
  }

  /** Adds an item that travels in the way that fits its size. Returns this. */
  public Outgoing add(ByteBuffer item) {
    return add(item, ItemKind.AUTO);
  }

  /** Adds an item. Returns this. */
  public Outgoing add(ByteBuffer item, ItemKind kind) {
    if (kind == ItemKind.RETURN)
      throw new IllegalArgumentException("say which return buffer: addReturn()");
    return add(item, kind, 0);
  }

  /** Adds all of a registered buffer, which must not be released before the send. Returns this. */
  public Outgoing add(RegisteredBuffer item, ItemKind kind) {
    int index = count;
    add(item.buffer(), kind);
    if (inlineAt[index] < 0) leases[index] = item;
    return this;
  }

  /**
   * Adds an item that travels long, without a copy: {@link ItemKind#LONG}. From the send until the
   * ticket is complete, the memory is on loan and must not change. The ticket keeps the memory
   * reachable, and keeps leased or registered memory in use. Returns this.
   *
   * @throws IllegalArgumentException if the buffer is not direct: heap memory cannot be lent;
   *     {@link #add} copies it
   */
  public Outgoing borrow(ByteBuffer direct) {
    if (!direct.isDirect()) {
      throw new IllegalArgumentException(
          "only a direct buffer can be lent: take one of lease(), or add() this one, which copies it");
    }
    return add(direct, ItemKind.LONG);
  }

  /**
   * The same with all of a registered buffer, which must not be released before the send, but may
   * be released right after it. Returns this.
   */
  public Outgoing borrow(RegisteredBuffer item) {
    return add(item, ItemKind.LONG);
  }

  /**
   * Adds an item of a reply that goes into return buffer {@code index} of the request. Returns
   * this.
   */
  public Outgoing addReturn(ByteBuffer item, int index) {
    if (index < 0 || index >= Layout.MAX_RETURNS) throw new IndexOutOfBoundsException(index);
    return add(item, ItemKind.RETURN, index);
  }

  private Outgoing add(ByteBuffer item, ItemKind kind, int returnIndex) {
    int index = count;
    if (index == Layout.MAX_ITEMS)
      throw new IllegalStateException("a message has at most 64 items");
    int size = item.remaining();
    int free = inlineUsed;
    boolean copied = size <= INLINE_ITEM || !item.isDirect();
    boolean inline =
        copied
            && size <= OutgoingMemory.INLINE - free
            && (kind == ItemKind.AUTO || kind == ItemKind.SHORT);
    kinds[index] = kind.ordinal();
    sizes[index] = size;
    returnIndexes[index] = returnIndex;
    if (inline) {
      inlineAt[index] = free;
      if (FileMemory.isMapped(item)) {
        copyMapped(memory.address + free, item, item.position(), size);
      } else {
        bytes.put(free, item, item.position(), size);
      }
      inlineUsed = free + ((size + 7) & ~7);
    } else {
      inlineAt[index] = -1;
      positions[index] = item.position();
      sources[index] = item;
      leases[index] = null;
      referring = true;
    }
    count = index + 1;
    return this;
  }

  private static void copyMapped(long to, ByteBuffer mapped, int position, int size) {
    FileMemory.copy(to, Binding.get().addressOf(mapped) + position, size);
    Reference.reachabilityFence(mapped);
  }

  /**
   * Lets the reply write into a buffer. It becomes return buffer 0, 1 ... in the order of the
   * calls. Returns this.
   */
  public Outgoing attach(ReturnBuffer buffer) {
    if (returnCount == Layout.MAX_RETURNS)
      throw new IllegalStateException("a message has at most 16 return buffers");
    attached[returnCount++] = buffer;
    return this;
  }

  /** After a send with return buffers: its number in {@link Message#inReplyTo}; else 0. */
  public long requestId() {
    return requestId;
  }

  /**
   * After a send to a group, even a failed one: which members it was sent to. Null if the
   * destination was no group.
   */
  public GroupOutcome outcome() {
    return outcome;
  }

  // ---- For the sender ----

  /** Whether the message is complete in this object: short items in order, no return buffers. */
  boolean isPlain() {
    return returnCount == 0 && !referring && !unordered;
  }

  int tagNumber() {
    return tag;
  }

  boolean isQuiet() {
    return quiet;
  }

  boolean mayBeLong() {
    for (int index = 0; index < count; ++index) if (kinds[index] != SHORT) return true;
    return false;
  }

  /**
   * Prepares a plain message. Returns the number of items.
   *
   * @param all whether its AUTO items are short items, too
   */
  int preparePlain(boolean all) {
    requestId = 0;
    outcome = null;
    int items = count;
    for (int index = 0; index < items; ++index) {
      int from = inlineAt[index];
      int size = sizes[index];
      if (from < 0 || size > OutgoingMemory.INLINE) throw mixture();
      memory.plainItem(index, from, size, all || kinds[index] == SHORT ? SHORT : AUTO);
    }
    return items;
  }

  private static IllegalStateException mixture() {
    return new IllegalStateException(
        "Another thread uses this message, or a buffer in it: one at a time may.");
  }

  /** For any other message: keeps other threads from sending it until {@link #end}. */
  void begin() {
    if (!inUse.compareAndSet(false, true)) throw mixture();
  }

  void end() {
    inUse.setRelease(false);
  }

  /** The return buffers. */
  ReturnBuffer[] returnBuffers() {
    return Arrays.copyOf(attached, returnCount);
  }

  /**
   * Between {@link #begin} and {@link #end}: calls {@link #prepareItems} and fills the options.
   *
   * @param user of the ticket; 0 if there is none
   */
  int prepare(
      RipcCore ripc,
      ItemMemory kept,
      long user,
      boolean group,
      boolean returns,
      ReturnBuffer[] buffers,
      LongSupplier shortLimit) {
    int items = prepareItems(ripc, kept, group, returns, buffers, shortLimit);
    memory.options(tag, buffers.length, timeout, user, group, unordered);
    return items;
  }

  /**
   * Between {@link #begin} and {@link #end}: gives every item and every return buffer memory that
   * does not move.
   *
   * @param kept gets the objects that are to be kept
   * @param group whether it goes to a group, which takes short items only
   * @param returns whether there may be return buffers to write into
   * @param buffers the return buffers of this message
   * @param shortLimit the largest size of an item that travels short; asked for rarely
   * @return how many items there are
   */
  int prepareItems(
      RipcCore ripc,
      ItemMemory kept,
      boolean group,
      boolean returns,
      ReturnBuffer[] buffers,
      LongSupplier shortLimit) {
    int items = count;
    for (int index = 0; index < items; ++index) {
      int kind = kinds[index];
      if (kind == AUTO && group) kind = SHORT;
      if (kind == RETURN && !returns) kind = AUTO;
      int from = inlineAt[index];
      int size = sizes[index];
      if (from >= 0 && size > OutgoingMemory.INLINE) throw mixture();
      if (from < 0) {
        placeOutside(ripc, index, kind, size, kept, shortLimit);
      } else {
        memory.item(index, memory.address + from, size, kind, returnIndexes[index]);
      }
    }
    memory.returnBuffers(buffers);
    return items;
  }

  /** For an item that is not inline. */
  private void placeOutside(
      RipcCore ripc, int index, int kind, int size, ItemMemory kept, LongSupplier shortLimit) {
    ByteBuffer source = sources[index];
    int position = positions[index];
    if (source == null || size > source.capacity() - position) throw mixture();
    FileMemory.checkOpen(source);
    boolean mapped = kind != LONG && FileMemory.isMapped(source);
    boolean copies = mapped || !source.isDirect();
    // A copy made here is lent, so that the library makes no second one.
    if (copies && kind == AUTO && size > MOST_COPIED_TWICE && size > shortLimit.getAsLong())
      kind = LONG;
    List<Object> held = kind == LONG ? kept.lent : kept.used;
    if (copies) {
      PoolMemory copy = ripc.pool().lease(size);
      held.add(copy);
      if (mapped) {
        copyMapped(copy.address, source, position, size);
      } else {
        // The buffer's limit may have changed since it was added.
        copy.root().put(0, source.duplicate().clear(), position, size);
      }
      memory.item(index, copy.address, size, kind, returnIndexes[index]);
      return;
    }
    long start = ripc.binding().addressOf(source);
    RegisteredBuffer lease = leases[index];
    CountedMemory known = lease != null ? lease.retainedMemory() : ripc.pool().findAndRetain(start);
    if (known != null) held.add(known);
    ripc.registrations().retainThoseOf(start + position, size, held);
    held.add(source);
    memory.item(index, start + position, size, kind, returnIndexes[index]);
  }

  void readResults(boolean group) {
    requestId = memory.request();
    outcome = group ? memory.outcome() : null;
  }
}
