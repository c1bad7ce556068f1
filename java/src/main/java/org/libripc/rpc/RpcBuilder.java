// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import java.util.Objects;
import org.libripc.Service;

/** The options of an {@link Rpc}: {@link Rpc#of}. One thread at a time. */
public final class RpcBuilder {
  private final Service service;
  private int slots;
  private int queue;
  private int maxSessions;

  RpcBuilder(Service service) {
    this.service = Objects.requireNonNull(service);
  }

  /** Calls under way to one server at once: a power of 2 up to 256; 8 if it is not set. */
  public RpcBuilder slots(int count) {
    slots = positive(count);
    return this;
  }

  /** Calls to one server that wait for a slot; 1024 if it is not set. */
  public RpcBuilder queue(int calls) {
    queue = positive(calls);
    return this;
  }

  /** Clients served at once; 65536 if it is not set. */
  public RpcBuilder maxSessions(int clients) {
    maxSessions = positive(clients);
    return this;
  }

  private static int positive(int number) {
    if (number < 1) throw new IllegalArgumentException("the number must be more than 0");
    return number;
  }

  /**
   * Opens the endpoint, as {@link Rpc#open}.
   *
   * @throws org.libripc.RipcException {@link org.libripc.Status#INVALID_ARGUMENT} if the number of
   *     slots is not a power of 2 up to 256
   */
  public Rpc open() {
    return new Rpc(service, slots, queue, maxSessions);
  }
}
