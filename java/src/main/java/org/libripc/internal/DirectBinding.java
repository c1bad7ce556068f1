// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

/**
 * What both bindings have in common: the native methods of {@link NativeCalls} and {@link LibC}.
 */
abstract class DirectBinding implements NativeBinding {
  @Override
  public int send(long service, long to, long items, int count, long options, long ticket) {
    return NativeCalls.ripc_send(service, to, items, count, options, ticket);
  }

  @Override
  public int sendMany(long service, long to, long messages, int count, long sent) {
    return NativeCalls.ripc_send_many(service, to, messages, count, 0, 0, sent);
  }

  @Override
  public void releaseMessage(long message) {
    NativeCalls.ripc_message_release(message);
  }

  @Override
  public String lastError() {
    return text(NativeCalls.ripc_last_error());
  }

  @Override
  public String statusText(int status) {
    return text(NativeCalls.ripc_status_text(status));
  }

  @Override
  public String version() {
    return text(NativeCalls.ripc_version());
  }

  @Override
  public int holdViews(long message, long hold) {
    return NativeCalls.ripc_message_hold_views(message, hold);
  }

  @Override
  public void releaseViews(long hold) {
    NativeCalls.ripc_view_hold_release(hold);
  }

  @Override
  public void copy(long to, long from, long size) {
    if (size != 0) LibC.memcpy(to, from, size);
  }

  @Override
  public String text(long address) {
    int length = Math.toIntExact(LibC.strlen(address));
    return NativeBlock.text(view(address, length), 0, length);
  }

  @Override
  public void contextOptionsInit(long options) {
    NativeCalls.ripc_context_options_init(options);
  }

  @Override
  public int contextCreate(long options, long context) {
    return NativeCalls.ripc_context_create(options, context);
  }

  @Override
  public void contextDestroy(long context) {
    NativeCalls.ripc_context_destroy(context);
  }

  @Override
  public int idFromName(long name, long id) {
    return NativeCalls.ripc_id_from_name(name, id);
  }

  @Override
  public int groupIdFromName(long name, long id) {
    return NativeCalls.ripc_group_id_from_name(name, id);
  }

  @Override
  public void serviceOptionsInit(long options) {
    NativeCalls.ripc_service_options_init(options);
  }

  @Override
  public int serviceRegister(long context, long options, long service) {
    return NativeCalls.ripc_service_register(context, options, service);
  }

  @Override
  public void serviceUnregister(long service) {
    NativeCalls.ripc_service_unregister(service);
  }

  @Override
  public long serviceId(long service) {
    return NativeCalls.ripc_service_get_id(service);
  }

  @Override
  public long serviceIncarnation(long service) {
    return NativeCalls.ripc_service_get_incarnation(service);
  }

  @Override
  public int serviceStatistics(long service, long statistics) {
    return NativeCalls.ripc_service_get_statistics(service, statistics);
  }

  @Override
  public int reply(long service, long message, long items, int count, long options, long ticket) {
    return NativeCalls.ripc_reply(service, message, items, count, options, ticket);
  }

  @Override
  public int requestCancel(long service, long request) {
    return NativeCalls.ripc_request_cancel(service, request);
  }

  @Override
  public int shortLimit(long service, long to, long items, long bytes) {
    return NativeCalls.ripc_short_limit(service, to, items, bytes);
  }

  @Override
  public int waitRoom(long service, long to, long timeout) {
    return NativeCalls.ripc_wait_room(service, to, timeout);
  }

  @Override
  public int requestRoomEvent(long service, long to) {
    return NativeCalls.ripc_request_room_event(service, to);
  }

  @Override
  public int ticketPoll(long ticket) {
    return NativeCalls.ripc_ticket_poll(ticket);
  }

  @Override
  public int ticketCancel(long ticket) {
    return NativeCalls.ripc_ticket_cancel(ticket);
  }

  @Override
  public void ticketRelease(long ticket) {
    NativeCalls.ripc_ticket_release(ticket);
  }

  @Override
  public int groupJoin(long service, long group) {
    return NativeCalls.ripc_group_join(service, group);
  }

  @Override
  public int groupLeave(long service, long group) {
    return NativeCalls.ripc_group_leave(service, group);
  }

  @Override
  public int windowPost(long service, long data, long size, long cookie) {
    return NativeCalls.ripc_window_post(service, data, size, cookie);
  }

  @Override
  public int contextWindowPost(long context, long data, long size, long cookie) {
    return NativeCalls.ripc_context_window_post(context, data, size, cookie);
  }

  @Override
  public int windowWithdraw(long service, long cookie, long count) {
    return NativeCalls.ripc_window_withdraw(service, cookie, count);
  }

  @Override
  public int contextWindowWithdraw(long context, long cookie, long count) {
    return NativeCalls.ripc_context_window_withdraw(context, cookie, count);
  }

  @Override
  public int interrupt(long service) {
    return NativeCalls.ripc_interrupt(service);
  }

  @Override
  public int serviceDescriptor(long service, long descriptor) {
    return NativeCalls.ripc_service_get_fd(service, descriptor);
  }

  @Override
  public int notificationRegister(long service, long callback, long user, long notification) {
    return NativeCalls.ripc_notification_register(service, callback, user, notification);
  }

  @Override
  public int notificationUnregister(long service, long notification) {
    return NativeCalls.ripc_notification_unregister(service, notification);
  }

  @Override
  public int notify(long service, long notification, long items, int count) {
    return NativeCalls.ripc_notify(service, notification, items, count);
  }

  @Override
  public int bufferLease(long context, long size, long data) {
    return NativeCalls.ripc_buffer_lease(context, size, data);
  }

  @Override
  public int bufferRelease(long context, long data) {
    return NativeCalls.ripc_buffer_release(context, data);
  }

  @Override
  public int memoryRegister(long context, long data, long size) {
    return NativeCalls.ripc_memory_register(context, data, size);
  }

  @Override
  public int memoryUnregister(long context, long data) {
    return NativeCalls.ripc_memory_unregister(context, data);
  }

  @Override
  public int poolStatistics(long context, long statistics) {
    return NativeCalls.ripc_pool_get_statistics(context, statistics);
  }

  @Override
  public int securityStatistics(long context, long statistics) {
    return NativeCalls.ripc_security_get_statistics(context, statistics);
  }

  @Override
  public int trustStatus(long context) {
    return NativeCalls.ripc_trust_status(context);
  }

  @Override
  public int resolve(long context, long id, long info) {
    return NativeCalls.ripc_resolve(context, id, info);
  }

  @Override
  public int resolveName(long context, long name, long info) {
    return NativeCalls.ripc_resolve_name(context, name, info);
  }

  @Override
  public int findPath(long context, long id, long info) {
    return NativeCalls.ripc_find_path(context, id, info);
  }

  @Override
  public int serviceWatch(long context, long id, long callback, long user, long watch) {
    return NativeCalls.ripc_service_watch(context, id, callback, user, watch);
  }

  @Override
  public void serviceUnwatch(long watch) {
    NativeCalls.ripc_service_unwatch(watch);
  }

  @Override
  public int listServices(long context, long user) {
    return NativeCalls.ripc_list_services(context, visitorFunction(), user);
  }

  @Override
  public int listRails(long context, long id, long user) {
    return NativeCalls.ripc_list_rails(context, id, visitorFunction(), user);
  }

  @Override
  public int groupMembers(long context, long group, long user) {
    return NativeCalls.ripc_group_members(context, group, visitorFunction(), user);
  }

  @Override
  public int diagnose(long options, long user) {
    return NativeCalls.ripc_diagnose(options, visitorFunction(), user);
  }

  @Override
  public int rpcCall(
      long rpc, long to, int method, long items, int count, long options, long user, long call) {
    return NativeCalls.ripc_rpc_call(rpc, to, method, items, count, options, 0, user, call);
  }

  @Override
  public int rpcRunRecords(long rpc, long timeout, long buffer, int size, long count) {
    return NativeCalls.ripc_rpc_run_records(rpc, timeout, buffer, size, count);
  }

  @Override
  public int requestReply(long request, int code, long items, int count, long ticket) {
    return NativeCalls.ripc_request_reply(request, code, items, count, ticket);
  }

  @Override
  public int rpcCreate(long service, long options, long rpc) {
    return NativeCalls.ripc_rpc_create(service, options, rpc);
  }

  @Override
  public int rpcClose(long rpc) {
    return NativeCalls.ripc_rpc_close(rpc);
  }

  @Override
  public void rpcDestroy(long rpc) {
    NativeCalls.ripc_rpc_destroy(rpc);
  }

  @Override
  public int rpcHandle(long rpc, int method, long user) {
    return NativeCalls.ripc_rpc_handle(rpc, method, 0, 0, user);
  }

  @Override
  public int rpcCancel(long rpc, long call) {
    return NativeCalls.ripc_rpc_cancel(rpc, call);
  }

  @Override
  public void requestDrop(long request, int status) {
    NativeCalls.ripc_request_drop(request, status);
  }

  @Override
  public void requestRefuse(long request, int status) {
    NativeCalls.ripc_request_refuse(request, status);
  }

  @Override
  public long requestTimeLeft(long request) {
    return NativeCalls.ripc_request_time_left(request);
  }

  @Override
  public int rpcStatistics(long rpc, long statistics) {
    return NativeCalls.ripc_rpc_get_statistics(rpc, statistics);
  }

  @Override
  public int rpcMethods(long rpc, long user) {
    return NativeCalls.ripc_rpc_list_methods(rpc, visitorFunction(), user);
  }
}
