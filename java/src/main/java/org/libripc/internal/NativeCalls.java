// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

/**
 * The functions of ripc.h and rpc.h, with size_t and pointers as long: 64-bit systems only. The
 * binding registers them: libripc-jni.so (its list is in java/src/main/native/calls.h), or JNA.
 */
final class NativeCalls {
  private NativeCalls() {}

  static native int ripc_send(
      long service, long to, long items, long count, long options, long ticket);

  static native int ripc_send_many(
      long service, long to, long messages, long count, long options, long tickets, long sent);

  static native int ripc_receive_records(
      long service, int flags, long timeout, long records, long size, long capacity, long count);

  static native void ripc_message_release(long message);

  static native int ripc_message_hold_views(long message, long hold);

  static native void ripc_view_hold_release(long hold);

  static native long ripc_last_error();

  static native long ripc_status_text(int status);

  static native long ripc_version();

  static native void ripc_context_options_init(long options);

  static native int ripc_context_create(long options, long context);

  static native void ripc_context_destroy(long context);

  static native int ripc_id_from_name(long name, long id);

  static native int ripc_group_id_from_name(long name, long id);

  static native void ripc_service_options_init(long options);

  static native int ripc_service_register(long context, long options, long service);

  static native void ripc_service_unregister(long service);

  static native long ripc_service_get_id(long service);

  static native long ripc_service_get_incarnation(long service);

  static native int ripc_service_get_statistics(long service, long statistics);

  static native int ripc_reply(
      long service, long message, long items, long count, long options, long ticket);

  static native int ripc_request_cancel(long service, long request);

  static native int ripc_short_limit(long service, long to, long items, long bytes);

  static native int ripc_wait_room(long service, long to, long timeout);

  static native int ripc_request_room_event(long service, long to);

  static native int ripc_ticket_poll(long ticket);

  static native int ripc_ticket_cancel(long ticket);

  static native void ripc_ticket_release(long ticket);

  static native int ripc_group_join(long service, long group);

  static native int ripc_group_leave(long service, long group);

  static native int ripc_window_post(long service, long data, long size, long cookie);

  static native int ripc_context_window_post(long context, long data, long size, long cookie);

  static native int ripc_window_withdraw(long service, long cookie, long count);

  static native int ripc_context_window_withdraw(long context, long cookie, long count);

  static native int ripc_interrupt(long service);

  static native int ripc_service_get_fd(long service, long descriptor);

  static native int ripc_notification_register(
      long service, long callback, long user, long notification);

  static native int ripc_notification_unregister(long service, long notification);

  static native int ripc_notify(long service, long notification, long items, long count);

  static native int ripc_buffer_lease(long context, long size, long data);

  static native int ripc_buffer_release(long context, long data);

  static native int ripc_memory_register(long context, long data, long size);

  static native int ripc_memory_unregister(long context, long data);

  static native int ripc_pool_get_statistics(long context, long statistics);

  static native int ripc_security_get_statistics(long context, long statistics);

  static native int ripc_trust_status(long context);

  static native int ripc_resolve(long context, long id, long info);

  static native int ripc_resolve_name(long context, long name, long info);

  static native int ripc_find_path(long context, long id, long info);

  static native int ripc_service_watch(long context, long id, long callback, long user, long watch);

  static native void ripc_service_unwatch(long watch);

  static native int ripc_list_services(long context, long visitor, long user);

  static native int ripc_list_rails(long context, long id, long visitor, long user);

  static native int ripc_group_members(long context, long group, long visitor, long user);

  static native int ripc_diagnose(long options, long visitor, long user);

  static native int ripc_rpc_create(long service, long options, long rpc);

  static native int ripc_rpc_close(long rpc);

  static native void ripc_rpc_destroy(long rpc);

  static native int ripc_rpc_handle(long rpc, int method, int flags, long handler, long user);

  static native int ripc_rpc_call(
      long rpc,
      long to,
      int method,
      long items,
      long count,
      long options,
      long done,
      long user,
      long call);

  static native int ripc_rpc_cancel(long rpc, long call);

  static native long ripc_call_text(int outcome, int status);

  static native int ripc_rpc_run_records(
      long rpc, long timeout, long records, long size, long count);

  static native int ripc_request_reply(long request, int code, long items, long count, long ticket);

  static native void ripc_request_drop(long request, int status);

  static native void ripc_request_refuse(long request, int status);

  static native long ripc_request_time_left(long request);

  static native int ripc_rpc_get_statistics(long rpc, long statistics);

  static native int ripc_rpc_list_methods(long rpc, long visitor, long user);
}
