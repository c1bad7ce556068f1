// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.util.Iterator;
import java.util.NoSuchElementException;
import org.libripc.internal.Chunk;
import org.libripc.internal.Layout.Record;

/**
 * Messages received with one native call, without garbage: {@link Service#batch} makes a batch, and
 * {@link Service#receive(MessageBatch, long, java.util.concurrent.TimeUnit)} fills it again and
 * again. Its {@link Message} objects belong to the batch and are reused. They, and the buffers they
 * returned, are valid until the next receive into the batch, or {@link #close}. A short item for
 * which there is neither room nor other memory is missing, with {@link Status#NO_MEMORY}.
 *
 * <p>One thread at a time.
 */
public final class MessageBatch implements Iterable<Message>, AutoCloseable {
  private final Service service;
  private final Message[] messages;
  private final Chunk chunk;
  private int count;

  MessageBatch(Service service, int capacity, int bytes) {
    this.service = service;
    messages = new Message[capacity];
    for (int index = 0; index < capacity; ++index) messages[index] = new Message(service, true);
    chunk = new Chunk(capacity * Record.LARGEST + bytes);
  }

  Service service() {
    return service;
  }

  Chunk chunk() {
    return chunk;
  }

  /** The most messages that it can hold. */
  public int capacity() {
    return messages.length;
  }

  void load(int received) {
    int at = 0;
    // What was loaded before a failure is closed by the next receive.
    for (count = 0; count < received; ++count)
      at += messages[count].load(service.core(), chunk, at);
  }

  /** How many messages the last receive has brought. */
  public int size() {
    return count;
  }

  /** One of the messages. */
  public Message get(int index) {
    if (index < 0 || index >= count) throw new IndexOutOfBoundsException(index);
    return messages[index];
  }

  /** Iterates over all messages; makes garbage, unlike {@link #get}. */
  @Override
  public Iterator<Message> iterator() {
    return new Iterator<>() {
      private int next;

      @Override
      public boolean hasNext() {
        return next < count;
      }

      @Override
      public Message next() {
        if (!hasNext()) throw new NoSuchElementException();
        return messages[next++];
      }
    };
  }

  /** Closes all messages in it. It can be used again. */
  @Override
  public void close() {
    for (int index = 0; index < count; ++index) messages[index].close();
    count = 0;
  }
}
