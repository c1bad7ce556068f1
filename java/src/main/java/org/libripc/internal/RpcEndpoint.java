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
 * The interface that org.libripc offers to org.libripc.rpc: the calls of one service. Any thread,
 * unless it says otherwise.
 */
public interface RpcEndpoint {
  /** Receives what a run has found. Throws nothing. */
  interface Events {
    /**
     * A request for a method has come. It is dropped if it was neither kept nor ended when this
     * returns.
     */
    void requested(int handler, RpcRequest request);

    /**
     * A call has ended.
     *
     * @param call the caller of {@link #call}
     * @param answer valid until this returns; empty if there is none
     * @param run whether it is called by the thread that runs the endpoint; else by the one that
     *     closes it
     */
    void ended(Object call, Message answer, int outcome, Status status, int code, boolean run);
  }

  /** A caller whose call has return buffers. */
  interface Borrower {
    /**
     * Called before the call begins. {@code giveBack} gives the buffers back once; after the end of
     * the call it does nothing.
     */
    void lends(Runnable giveBack);
  }

  /** Makes the endpoint of a service. */
  interface Maker {
    /** The numbers of the options are as in C. */
    RpcEndpoint make(Service service, int slots, int queue, int maxSessions, Events events);
  }

  /** Holds the maker. */
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

  /**
   * Sets the handler number with which requests for a method are reported. Call it before the
   * endpoint runs.
   */
  void handle(int method, int handler);

  /**
   * Begins a call, whose end is reported with {@code caller}. Returns the call's name.
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

  /** Cancels a call; false if it has ended. A run still reports its end. */
  boolean cancel(long call);

  /** The thread whose turn it is to run; null if there is none. */
  Thread runner();

  /** Takes the turn; false if another thread has it. */
  boolean tryTurn();

  void endTurn();

  /**
   * Runs the endpoint; the caller has the turn. Returns how many events there were in this time; 0
   * if none.
   */
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

  /** Moves the message into one that keeps its memory; the given one is closed. */
  Message own(Message answer);
}
