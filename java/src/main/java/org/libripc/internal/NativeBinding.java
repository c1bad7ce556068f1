// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import java.nio.ByteBuffer;

/**
 * The calls of ripc.h, by numbers: handles and pointers are addresses, statuses are their codes.
 * Both bindings call {@link NativeCalls} and {@link LibC}; methods that each implements in its own
 * way have no body here. Nothing is checked here: callers hold a {@link Guard} for each handle. If
 * a call takes memory, the caller keeps it reachable.
 *
 * <p>The first group is called for every message.
 */
public interface NativeBinding {
  /** "jni" or "jna". */
  String name();

  // ---- For every message ----

  default int send(long service, long to, long items, int count, long options, long ticket) {
    return NativeCalls.ripc_send(service, to, items, count, options, ticket);
  }

  default int sendMany(long service, long to, long messages, int count, long sent) {
    return NativeCalls.ripc_send_many(service, to, messages, count, 0, 0, sent);
  }

  /**
   * Receives up to {@code capacity} messages, and no more than {@code size} has room for at {@link
   * Layout.Record#LARGEST} bytes each. Writes each as a record ({@link Layout.Record}) into {@code
   * buffer}, one after the other. Returns how many, or a status as a negative number.
   */
  int receiveBatch(long service, int flags, long timeout, long buffer, int size, int capacity);

  default void releaseMessage(long message) {
    NativeCalls.ripc_message_release(message);
  }

  /** Where a direct buffer starts, at its index 0. */
  long addressOf(ByteBuffer direct);

  // ---- Texts ----

  default String lastError() {
    return text(NativeCalls.ripc_last_error());
  }

  default String statusText(int status) {
    return text(NativeCalls.ripc_status_text(status));
  }

  default String callText(int outcome, int status) {
    return text(NativeCalls.ripc_call_text(outcome, status));
  }

  /** The C string at an address. */
  default String text(long address) {
    int length = Math.toIntExact(LibC.strlen(address));
    return NativeBlock.text(view(address, length), 0, length);
  }

  default String version() {
    return text(NativeCalls.ripc_version());
  }

  // ---- Context and service ----

  default void contextOptionsInit(long options) {
    NativeCalls.ripc_context_options_init(options);
  }

  default int contextCreate(long options, long context) {
    return NativeCalls.ripc_context_create(options, context);
  }

  default void contextDestroy(long context) {
    NativeCalls.ripc_context_destroy(context);
  }

  default int idFromName(long name, long id) {
    return NativeCalls.ripc_id_from_name(name, id);
  }

  default int groupIdFromName(long name, long id) {
    return NativeCalls.ripc_group_id_from_name(name, id);
  }

  default void serviceOptionsInit(long options) {
    NativeCalls.ripc_service_options_init(options);
  }

  default int serviceRegister(long context, long options, long service) {
    return NativeCalls.ripc_service_register(context, options, service);
  }

  default void serviceUnregister(long service) {
    NativeCalls.ripc_service_unregister(service);
  }

  default long serviceId(long service) {
    return NativeCalls.ripc_service_get_id(service);
  }

  default long serviceIncarnation(long service) {
    return NativeCalls.ripc_service_get_incarnation(service);
  }

  default int serviceStatistics(long service, long statistics) {
    return NativeCalls.ripc_service_get_statistics(service, statistics);
  }

  // ---- Send ----

  default int reply(long service, long message, long items, int count, long options, long ticket) {
    return NativeCalls.ripc_reply(service, message, items, count, options, ticket);
  }

  default int requestCancel(long service, long request) {
    return NativeCalls.ripc_request_cancel(service, request);
  }

  default int shortLimit(long service, long to, long items, long bytes) {
    return NativeCalls.ripc_short_limit(service, to, items, bytes);
  }

  default int waitRoom(long service, long to, long timeout) {
    return NativeCalls.ripc_wait_room(service, to, timeout);
  }

  default int requestRoomEvent(long service, long to) {
    return NativeCalls.ripc_request_room_event(service, to);
  }

  default int ticketPoll(long ticket) {
    return NativeCalls.ripc_ticket_poll(ticket);
  }

  default int ticketCancel(long ticket) {
    return NativeCalls.ripc_ticket_cancel(ticket);
  }

  default void ticketRelease(long ticket) {
    NativeCalls.ripc_ticket_release(ticket);
  }

  default int groupJoin(long service, long group) {
    return NativeCalls.ripc_group_join(service, group);
  }

  default int groupLeave(long service, long group) {
    return NativeCalls.ripc_group_leave(service, group);
  }

  // ---- Windows and receive ----

  default int windowPost(long service, long data, long size, long cookie) {
    return NativeCalls.ripc_window_post(service, data, size, cookie);
  }

  default int contextWindowPost(long context, long data, long size, long cookie) {
    return NativeCalls.ripc_context_window_post(context, data, size, cookie);
  }

  default int windowWithdraw(long service, long cookie, long count) {
    return NativeCalls.ripc_window_withdraw(service, cookie, count);
  }

  default int contextWindowWithdraw(long context, long cookie, long count) {
    return NativeCalls.ripc_context_window_withdraw(context, cookie, count);
  }

  default int interrupt(long service) {
    return NativeCalls.ripc_interrupt(service);
  }

  default int serviceDescriptor(long service, long descriptor) {
    return NativeCalls.ripc_service_get_fd(service, descriptor);
  }

  // ---- Notifications ----

  default int notificationRegister(long service, long callback, long user, long notification) {
    return NativeCalls.ripc_notification_register(service, callback, user, notification);
  }

  default int notificationUnregister(long service, long notification) {
    return NativeCalls.ripc_notification_unregister(service, notification);
  }

  default int notify(long service, long notification, long items, int count) {
    return NativeCalls.ripc_notify(service, notification, items, count);
  }

  // ---- Buffers ----

  default int bufferLease(long context, long size, long data) {
    return NativeCalls.ripc_buffer_lease(context, size, data);
  }

  default int bufferRelease(long context, long data) {
    return NativeCalls.ripc_buffer_release(context, data);
  }

  default int memoryRegister(long context, long data, long size) {
    return NativeCalls.ripc_memory_register(context, data, size);
  }

  default int memoryUnregister(long context, long data) {
    return NativeCalls.ripc_memory_unregister(context, data);
  }

  default int poolStatistics(long context, long statistics) {
    return NativeCalls.ripc_pool_get_statistics(context, statistics);
  }

  default int securityStatistics(long context, long statistics) {
    return NativeCalls.ripc_security_get_statistics(context, statistics);
  }

  default int trustStatus(long context) {
    return NativeCalls.ripc_trust_status(context);
  }

  // ---- Callbacks: functions that call Upcalls ----

  long ticketFunction();

  long notificationFunction();

  long watchFunction();

  long visitorFunction();

  // ---- Names and paths; visits go to Upcalls, with this user ----

  default int resolve(long context, long id, long info) {
    return NativeCalls.ripc_resolve(context, id, info);
  }

  default int resolveName(long context, long name, long info) {
    return NativeCalls.ripc_resolve_name(context, name, info);
  }

  default int findPath(long context, long id, long info) {
    return NativeCalls.ripc_find_path(context, id, info);
  }

  default int serviceWatch(long context, long id, long callback, long user, long watch) {
    return NativeCalls.ripc_service_watch(context, id, callback, user, watch);
  }

  default void serviceUnwatch(long watch) {
    NativeCalls.ripc_service_unwatch(watch);
  }

  default int listServices(long context, long user) {
    return NativeCalls.ripc_list_services(context, visitorFunction(), user);
  }

  default int listRails(long context, long id, long user) {
    return NativeCalls.ripc_list_rails(context, id, visitorFunction(), user);
  }

  default int groupMembers(long context, long group, long user) {
    return NativeCalls.ripc_group_members(context, group, visitorFunction(), user);
  }

  default int diagnose(long options, long user) {
    return NativeCalls.ripc_diagnose(options, visitorFunction(), user);
  }

  // ---- Calls. The first three are used for every call ----

  /** The end of the call comes as a record, with {@code user}. */
  default int rpcCall(
      long rpc, long to, int method, long items, int count, long options, long user, long call) {
    return NativeCalls.ripc_rpc_call(rpc, to, method, items, count, options, 0, user, call);
  }

  /** Writes records ({@link Layout.CallRecord}) into {@code buffer}. */
  default int rpcRunRecords(long rpc, long timeout, long buffer, int size, long count) {
    return NativeCalls.ripc_rpc_run_records(rpc, timeout, buffer, size, count);
  }

  default int requestReply(long request, int code, long items, int count, long ticket) {
    return NativeCalls.ripc_request_reply(request, code, items, count, ticket);
  }

  default int rpcCreate(long service, long options, long rpc) {
    return NativeCalls.ripc_rpc_create(service, options, rpc);
  }

  default int rpcClose(long rpc) {
    return NativeCalls.ripc_rpc_close(rpc);
  }

  default void rpcDestroy(long rpc) {
    NativeCalls.ripc_rpc_destroy(rpc);
  }

  /** The requests come as records, with {@code user}. */
  default int rpcHandle(long rpc, int method, long user) {
    return NativeCalls.ripc_rpc_handle(rpc, method, 0, 0, user);
  }

  default int rpcCancel(long rpc, long call) {
    return NativeCalls.ripc_rpc_cancel(rpc, call);
  }

  default void requestDrop(long request, int status) {
    NativeCalls.ripc_request_drop(request, status);
  }

  default void requestRefuse(long request, int status) {
    NativeCalls.ripc_request_refuse(request, status);
  }

  default long requestTimeLeft(long request) {
    return NativeCalls.ripc_request_time_left(request);
  }

  default int rpcStatistics(long rpc, long statistics) {
    return NativeCalls.ripc_rpc_get_statistics(rpc, statistics);
  }

  /** Visits go to Upcalls, as for the names and paths above. */
  default int rpcMethods(long rpc, long user) {
    return NativeCalls.ripc_rpc_list_methods(rpc, visitorFunction(), user);
  }

  // ---- Memory ----

  /** Memory that libripc or a peer owns, as a direct buffer in native byte order. */
  ByteBuffer view(long address, long size);

  /** Keeps the memory of a message's lent items readable until {@link #releaseViews}. */
  default int holdViews(long message, long hold) {
    return NativeCalls.ripc_message_hold_views(message, hold);
  }

  default void releaseViews(long hold) {
    NativeCalls.ripc_view_hold_release(hold);
  }

  default void copy(long to, long from, long size) {
    if (size != 0) LibC.memcpy(to, from, size);
  }

  /** The error number of this thread's last call of {@link LibC} that has failed. */
  int lastErrorNumber();
}
