// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.nio.ByteBuffer;
import java.util.function.Consumer;
import org.libripc.Message;
import org.libripc.Outgoing;
import org.libripc.Service;
import org.libripc.ServiceId;
import org.libripc.Status;

/**
 * What org.libripc has for org.libripc.rpc: the calls of one service. Any thread, unless it says
 * otherwise.
 */
public interface RpcEndpoint {
  /** Who is told what a run has found. Throws nothing. */
  interface Events {
    /**
     * A request for a method. Where this returns, one that was neither kept nor ended is dropped.
     */
    void requested(int handler, RpcRequest request);

    /**
     * A call has ended.
     *
     * @param call the caller of {@link #call}
     * @param answer valid until this returns; empty if there is none
     * @param run the thread that runs; else the one that closes the endpoint
     */
    void ended(Object call, Message answer, int outcome, Status status, int code, boolean run);
  }

  /** A caller whose call has return buffers. */
  interface Borrower {
    /**
     * Before the call begins. {@code giveBack} does so once; after the end there is nothing left.
     */
    void lends(Runnable giveBack);
  }

  /** Makes the endpoint of a service. */
  interface Maker {
    /** The numbers of the options are as in C. */
    RpcEndpoint make(Service service, int slots, int queue, int maxSessions, Events events);
  }

  /** Where the maker is. */
  final class Door {
    private static volatile Maker maker;

    private Door() {}

    public static void to(Maker newMaker) {
      maker = newMaker;
    }

    public static RpcEndpoint open(
        Service service, int slots, int queue, int maxSessions, Events events) {
      return maker.make(service, slots, queue, maxSessions, events);
    }
  }

  /** Requests for a method are told with this number. Before it runs. */
  void handle(int method, int handler);

  /**
   * Begins a call, whose end is told to {@code caller}. Returns its name.
   *
   * @param timeout in nanoseconds; {@link Layout#DEFAULT_TIME}, {@link Layout#FOREVER}
   * @param parent may be null
   */
  long call(
      ServiceId to,
      int method,
      Outgoing arguments,
      long timeout,
      boolean idempotent,
      RpcRequest parent,
      Object caller);

  /** False if it has ended. Its end is told all the same, by a run. */
  boolean cancel(long call);

  /** The thread whose turn it is to run; null if it is nobody's. */
  Thread runner();

  /** Takes the turn; false if another thread has it. */
  boolean tryTurn();

  void endTurn();

  /** In its turn: how many events there were in the time, 0 if none. */
  int run(long nanos) throws InterruptedException;

  /** Fills the structure at the address of a block. */
  void statistics(NativeBlock block);

  /** Shows a structure for each method. */
  void methods(Consumer<ByteBuffer> visitor);

  boolean isClosed();

  /** False if it is closed already. */
  boolean close();

  /** Whether the context was lost. */
  boolean isLost();

  /** The same message in memory that it keeps; the given one is closed. */
  Message own(Message answer);
}
