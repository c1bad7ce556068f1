// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicInteger;
import org.libripc.internal.Chunk;
import org.libripc.internal.Layout.Record;

/**
 * The receiving half of a service: takes many messages with one native call, and hands them out one
 * by one or as a batch.
 */
final class Receiver {
  private static final int LEND = 1; // RIPC_RECEIVE_LEND
  private static final int RECEIVING = 1;
  private static final int FOR_CALLS = 2;
  private static final int FORGETTING = 16; // receives after which a large message counts for less
  private static final int MOST_AT_ONCE = 16;
  private static final int FEW = 4; // a chunk always has room for these
  // The first is for services that get small messages, perhaps many; the second for larger
  // messages.
  private static final int CHUNK = 64 << 10;
  private static final int LARGE_CHUNK = 256 << 10;
  private static final int LARGE_MESSAGE = 2048;
  private static final int MOST_EXPECTED = LARGE_CHUNK / FEW - Record.LARGEST;

  private final ServiceCore service;
  private volatile int flags;
  private volatile boolean exhausted = true; // no event has come since a receive found nothing

  private final AtomicInteger busy = new AtomicInteger();

  // All below: used by the busy thread.
  private final Chunks chunks = new Chunks();
  private Chunk chunk;
  private int next; // where the first message is that was received but not handed out
  private volatile int prefetched; // how many of these there are
  private int expected; // bytes of a message: the size of the largest recent one

  Receiver(ServiceCore service) {
    this.service = service;
  }

  void lending(boolean on) {
    flags = on ? LEND : 0;
  }

  /** Whether a receive may find something for which no event will come. */
  boolean mayHaveMore() {
    return prefetched != 0 || !exhausted;
  }

  /** Called when an event has reported something to receive. */
  void hasMore() {
    exhausted = false;
  }

  private int found(int count) {
    if (count == 0 && !exhausted) exhausted = true;
    return count;
  }

  boolean isBusy() {
    return busy.get() != 0;
  }

  // While this thread is inside, the service is not unregistered: close() waits for it.
  private void begin() {
    if (!busy.compareAndSet(0, RECEIVING)) {
      // The thread inside may be close().
      if (service.isClosed()) throw ServiceCore.closed();
      if (busy.get() == FOR_CALLS) {
        throw new IllegalStateException(
            "An Rpc receives from this service: run that, or register another service.");
      }
      throw new IllegalStateException(
          "Another thread receives from this service: one at a time may.");
    }
    if (service.isClosed()) {
      end();
      throw ServiceCore.closed();
    }
  }

  /** Only an endpoint of calls receives, until {@link #end}. */
  void beginCalls() {
    begin();
    busy.set(FOR_CALLS);
  }

  void end() {
    busy.setRelease(0);
  }

  Message receive(Service by, long timeout) throws InterruptedException {
    begin();
    try {
      if (prefetched == 0) {
        makeRoom();
        got(found(service.waiting().receive(address(), left(), capacity(), flags, timeout)));
      } else if (Thread.interrupted()) {
        throw new InterruptedException();
      }
      return giveOut(by);
    } finally {
      end();
      Reference.reachabilityFence(by);
    }
  }

  Message poll(Service by) {
    begin();
    try {
      if (prefetched == 0) {
        makeRoom();
        got(found(service.waiting().receiveNow(address(), left(), capacity(), flags)));
      }
      return giveOut(by);
    } finally {
      end();
      Reference.reachabilityFence(by);
    }
  }

  int receive(Service by, MessageBatch batch, long timeout) throws InterruptedException {
    begin();
    try {
      if (prefetched != 0) return refuse();
      prepare(batch);
      Chunk to = batch.chunk();
      int count =
          service
              .waiting()
              .receive(
                  to.block.address, to.block.bytes.capacity(), batch.capacity(), flags, timeout);
      batch.load(found(count));
      return count;
    } finally {
      end();
      Reference.reachabilityFence(by);
    }
  }

  int poll(Service by, MessageBatch batch) {
    begin();
    try {
      if (prefetched != 0) return refuse();
      prepare(batch);
      Chunk to = batch.chunk();
      int count =
          service
              .waiting()
              .receiveNow(to.block.address, to.block.bytes.capacity(), batch.capacity(), flags);
      batch.load(found(count));
      return count;
    } finally {
      end();
      Reference.reachabilityFence(by);
    }
  }

  private void prepare(MessageBatch batch) {
    if (batch.service().core() != service)
      throw new IllegalArgumentException("this batch belongs to another service");
    batch.close();
  }

  private static int refuse() {
    throw new IllegalStateException(
        "receive() has fetched more messages than it has returned: take those first, until poll() returns null.");
  }

  // ---- Chunks ----

  private long address() {
    return chunk.block.address + chunk.end;
  }

  private int left() {
    return chunk.size() - chunk.end;
  }

  private int capacity() {
    int room = left() / (Record.LARGEST + expected);
    return Math.min(MOST_AT_ONCE, left() >= Record.LARGEST ? Math.max(1, room) : 0);
  }

  /** Sets `chunk` to one with room for a few messages. */
  private void makeRoom() {
    int size = expected >= LARGE_MESSAGE ? LARGE_CHUNK : CHUNK;
    chunk = chunks.withRoom(size, FEW * (Record.LARGEST + expected));
  }

  private void got(int count) {
    if (count == 0) return;
    next = chunk.end;
    chunk.retain(count);
    int end = next;
    expected -= expected / FORGETTING;
    for (int index = 0; index < count; ++index) {
      int size = chunk.block.bytes.getInt(end + Record.RECORD_SIZE);
      expect(size);
      end += size;
    }
    chunk.end = end;
    prefetched = count;
  }

  private void expect(int size) {
    expected = Math.max(expected, Math.min(size, MOST_EXPECTED));
  }

  private Message giveOut(Service by) {
    if (prefetched == 0) return null;
    Message message = new Message(by, false);
    next += message.load(service, chunk, next);
    expect(message.bytesBeside());
    prefetched = prefetched - 1;
    return message;
  }

  /**
   * The service is being closed, and no thread is inside: gives back the messages that nobody will
   * ask for.
   */
  void drop() {
    while (!busy.compareAndSet(0, RECEIVING)) Thread.onSpinWait();
    try {
      for (Message message = giveOut(null); message != null; message = giveOut(null))
        message.close();
      chunks.clear();
      chunk = null;
    } finally {
      end();
    }
  }
}
