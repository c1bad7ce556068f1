// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import com.sun.jna.CallbackThreadInitializer;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** The binding through JNA. The only class that needs JNA. */
final class JnaBinding implements NativeBinding {
  interface TicketFunction extends Callback {
    void completed(long user, int status);
  }

  interface NotificationFunction extends Callback {
    void notified(long user, long source, long items, long count);
  }

  interface WatchFunction extends Callback {
    void changed(long user, int status, long info);
  }

  interface VisitorFunction extends Callback {
    void visit(long user, long found);
  }

  // Native code has the addresses of these, so they must never be collected.
  private static final TicketFunction TICKET = Upcalls::ticketCompleted;
  private static final NotificationFunction NOTIFICATION = Upcalls::notificationCame;
  private static final WatchFunction WATCH = Upcalls::serviceChanged;
  private static final VisitorFunction VISITOR = Upcalls::visit;

  // How many messages one call of receiveBatch has received.
  private static final Spares<NativeBlock> RECEIVED = new Spares<>(() -> new NativeBlock(8));

  private final long ticketFunction;
  private final long notificationFunction;
  private final long watchFunction;
  private final long visitorFunction;

  /**
   * @throws UnsatisfiedLinkError if JNA's own library, or this one, does not load
   * @throws NoClassDefFoundError if JNA is not on the class path
   */
  JnaBinding(String library) {
    Native.register(NativeCalls.class, NativeLibrary.getInstance(library));
    Native.register(LibC.class, "c");
    ticketFunction = addressOf(TICKET);
    notificationFunction = addressOf(NOTIFICATION);
    watchFunction = addressOf(WATCH);
    visitorFunction = addressOf(VISITOR);
  }

  /**
   * @throws UnsatisfiedLinkError if JNA's own library does not load
   * @throws NoClassDefFoundError if JNA is not on the class path
   */
  static void loadJna() {
    Native.getNativeSize(long.class);
  }

  private static long addressOf(Callback function) {
    // A responder thread stays known to the JVM until it ends, and does not keep the JVM from
    // ending.
    Native.setCallbackThreadInitializer(
        function, new CallbackThreadInitializer(true, false, "ripc-responder"));
    return Pointer.nativeValue(CallbackReference.getFunctionPointer(function));
  }

  @Override
  public String name() {
    return "jna";
  }

  @Override
  public int receiveBatch(
      long service, int flags, long timeout, long buffer, int size, int capacity) {
    NativeBlock count = RECEIVED.take();
    try {
      int status =
          NativeCalls.ripc_receive_records(
              service, flags, timeout, buffer, size, capacity, count.address);
      return status == 0 ? (int) count.bytes.getLong(0) : -status;
    } finally {
      RECEIVED.giveBack(count);
    }
  }

  @Override
  public long addressOf(ByteBuffer direct) {
    return Pointer.nativeValue(Native.getDirectBufferPointer(direct));
  }

  @Override
  public ByteBuffer view(long address, long size) {
    return new Pointer(address).getByteBuffer(0, size).order(ByteOrder.nativeOrder());
  }

  @Override
  public int lastErrorNumber() {
    return Native.getLastError();
  }

  @Override
  public long ticketFunction() {
    return ticketFunction;
  }

  @Override
  public long notificationFunction() {
    return notificationFunction;
  }

  @Override
  public long watchFunction() {
    return watchFunction;
  }

  @Override
  public long visitorFunction() {
    return visitorFunction;
  }
}
