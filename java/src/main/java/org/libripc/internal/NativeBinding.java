// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.nio.ByteBuffer;

/**
 * The calls of ripc.h, by numbers: handles and pointers are addresses, statuses are their codes.
 * Nothing is checked here: callers hold a {@link Guard} for each handle. Where a call takes memory,
 * the caller keeps it reachable.
 *
 * <p>The first group is called for every message.
 */
public interface NativeBinding {
  /** "jni" or "jna". */
  String name();

  // ---- For every message ----

  int send(long service, long to, long items, int count, long options, long ticket);

  int sendMany(long service, long to, long messages, int count, long sent);

  /**
   * Receives up to {@code capacity} messages, and no more than there are {@link
   * Layout.Record#LARGEST} in {@code size}, and writes each as a record ({@link Layout.Record})
   * into {@code buffer}, one after the other. Returns how many, or a status as a negative number.
   */
  int receiveBatch(long service, int flags, long timeout, long buffer, int size, int capacity);

  void releaseMessage(long message);

  /** Where a direct buffer starts, at its index 0. */
  long addressOf(ByteBuffer direct);

  // ---- Texts ----

  String lastError();

  String statusText(int status);

  /** The C string at an address. */
  String text(long address);

  String version();

  // ---- Context and service ----

  void contextOptionsInit(long options);

  int contextCreate(long options, long context);

  void contextDestroy(long context);

  int idFromName(long name, long id);

  int groupIdFromName(long name, long id);

  void serviceOptionsInit(long options);

  int serviceRegister(long context, long options, long service);

  void serviceUnregister(long service);

  long serviceId(long service);

  long serviceIncarnation(long service);

  int serviceStatistics(long service, long statistics);

  // ---- Send ----

  int reply(long service, long message, long items, int count, long options, long ticket);

  int requestCancel(long service, long request);

  int shortLimit(long service, long to, long items, long bytes);

  int waitRoom(long service, long to, long timeout);

  int requestRoomEvent(long service, long to);

  int ticketPoll(long ticket);

  int ticketCancel(long ticket);

  void ticketRelease(long ticket);

  int groupJoin(long service, long group);

  int groupLeave(long service, long group);

  // ---- Windows and receive ----

  int windowPost(long service, long data, long size, long cookie);

  int contextWindowPost(long context, long data, long size, long cookie);

  int windowWithdraw(long service, long cookie, long count);

  int contextWindowWithdraw(long context, long cookie, long count);

  int interrupt(long service);

  int serviceDescriptor(long service, long descriptor);

  // ---- Notifications ----

  int notificationRegister(long service, long callback, long user, long notification);

  int notificationUnregister(long service, long notification);

  int notify(long service, long notification, long items, int count);

  // ---- Buffers ----

  int bufferLease(long context, long size, long data);

  int bufferRelease(long context, long data);

  int memoryRegister(long context, long data, long size);

  int memoryUnregister(long context, long data);

  int poolStatistics(long context, long statistics);

  int securityStatistics(long context, long statistics);

  int trustStatus(long context);

  // ---- Callbacks: functions that call Upcalls ----

  long ticketFunction();

  long notificationFunction();

  long watchFunction();

  long visitorFunction();

  // ---- Names and paths; what they visit comes to Upcalls, with this user ----

  int resolve(long context, long id, long info);

  int resolveName(long context, long name, long info);

  int findPath(long context, long id, long info);

  int serviceWatch(long context, long id, long callback, long user, long watch);

  void serviceUnwatch(long watch);

  int listServices(long context, long user);

  int listRails(long context, long id, long user);

  int groupMembers(long context, long group, long user);

  int diagnose(long options, long user);

  // ---- Calls. The first three are for every one ----

  /** The end is recorded, with {@code user}. */
  int rpcCall(
      long rpc, long to, int method, long items, int count, long options, long user, long call);

  /** Writes records ({@link Layout.CallRecord}) into {@code buffer}. */
  int rpcRunRecords(long rpc, long timeout, long buffer, int size, long count);

  int requestReply(long request, int code, long items, int count, long ticket);

  int rpcCreate(long service, long options, long rpc);

  int rpcClose(long rpc);

  void rpcDestroy(long rpc);

  /** The requests are recorded, with {@code user}. */
  int rpcHandle(long rpc, int method, long user);

  int rpcCancel(long rpc, long call);

  void requestDrop(long request, int status);

  void requestRefuse(long request, int status);

  long requestTimeLeft(long request);

  int rpcStatistics(long rpc, long statistics);

  /** As of the names and paths above. */
  int rpcMethods(long rpc, long user);

  // ---- Memory ----

  /** Memory that libripc or a peer owns, as a direct buffer in native byte order. */
  ByteBuffer view(long address, long size);

  /** Keeps the memory of a message's lent items readable until {@link #releaseViews}. */
  int holdViews(long message, long hold);

  void releaseViews(long hold);

  void copy(long to, long from, long size);

  /** The error number of this thread's last call of {@link LibC} that has failed. */
  int lastErrorNumber();
}
