// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import org.libripc.internal.Layout.ServiceOptions;
import org.libripc.internal.NativeBlock;

/** The options for registering a service, from {@link Ripc#service}. One thread at a time. */
public final class ServiceBuilder {
  private final Ripc ripc;
  private long number;
  private String name;
  private boolean takeover;
  private int queueMessages;
  private int queueBytes;
  private int maxSenders;
  private int maxMessages;

  ServiceBuilder(Ripc ripc) {
    this.ripc = ripc;
  }

  /** A well-known number, from 1 to {@link ServiceId#WELL_KNOWN_MAX}. */
  public ServiceBuilder id(long wellKnown) {
    number = wellKnown;
    return this;
  }

  /**
   * A name, from which the ID is made: 1 to 200 bytes of UTF-8 without '/' and control characters.
   */
  public ServiceBuilder name(String serviceName) {
    ServiceId.ofName(serviceName);
    name = serviceName;
    return this;
  }

  /** If the ID has a living holder, the service fences it and takes its place. */
  public ServiceBuilder takeover() {
    takeover = true;
    return this;
  }

  /**
   * Messages that one sender may have waiting here: a power of 2 from 16 to 65536; 128 if it is not
   * set.
   */
  public ServiceBuilder queueMessages(int count) {
    queueMessages = count;
    return this;
  }

  /**
   * Bytes for messages over 100 bytes, for each sender: a power of 2 from 4 KiB to 64 MiB; 8192 if
   * it is not set.
   */
  public ServiceBuilder queueBytes(int bytes) {
    queueBytes = bytes;
    return this;
  }

  /**
   * Senders that may hold a queue here at once; 4096 if it is not set.
   *
   * @throws IllegalArgumentException if it is not positive
   */
  public ServiceBuilder maxSenders(int count) {
    maxSenders = (int) RipcBuilder.positive(count);
    return this;
  }

  /**
   * Received messages with lent items or return buffers that the application may hold unclosed;
   * 65536 if it is not set. Other messages use the JVM's memory and do not count.
   *
   * @throws IllegalArgumentException if it is not positive
   */
  public ServiceBuilder maxMessages(int count) {
    maxMessages = (int) RipcBuilder.positive(count);
    return this;
  }

  /**
   * Registers the service. When this returns, other processes can find it.
   *
   * @throws RipcException.IdInUse if the ID has a living holder and takeover was not asked for
   * @throws RipcException {@link Status#NAME_COLLISION}, {@link Status#LIMIT} and others
   */
  public Service register() {
    NativeBlock block = new NativeBlock(ServiceOptions.BYTES);
    NativeBlock text = NativeBlock.of(name);
    NativeBlock created = new NativeBlock(8);
    ByteBuffer options = block.bytes;
    RipcCore core = ripc.core();
    core.enter();
    boolean registered = false;
    try {
      core.binding().serviceOptionsInit(block.address);
      options.putLong(ServiceOptions.ID, number);
      options.putLong(ServiceOptions.NAME, NativeBlock.addressOf(text));
      options.putInt(ServiceOptions.TAKEOVER, takeover ? 1 : 0);
      options.putInt(ServiceOptions.QUEUE_MESSAGES, queueMessages);
      options.putInt(ServiceOptions.QUEUE_BYTES, queueBytes);
      options.putInt(ServiceOptions.MAX_SENDERS, maxSenders);
      options.putInt(ServiceOptions.MAX_MESSAGES, maxMessages);
      RipcException.check(
          core.binding().serviceRegister(core.handle(), block.address, created.address));
      Service service = new Service(ripc, created.bytes.getLong(0), name == null ? "" : name);
      registered = true;
      // The context may have been closed meanwhile without seeing this service.
      if (core.guard().isClosed()) service.close();
      return service;
    } finally {
      NativeBlock.keep(block, text);
      // From here on the service has entered the context for itself.
      if (!registered) core.guard().leave();
    }
  }
}
