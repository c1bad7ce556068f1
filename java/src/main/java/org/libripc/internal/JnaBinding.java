// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Everything by JNA. */
class JnaBinding implements NativeBinding {
  // How many messages one call of receiveBatch has received.
  private final ThreadLocal<NativeBlock> received =
      ThreadLocal.withInitial(() -> new NativeBlock(8));

  JnaBinding(NativeLibrary library) {
    Native.register(JnaCalls.class, library);
  }

  @Override
  public String name() {
    return "jna";
  }

  @Override
  public int send(long service, long to, long items, int count, long options, long ticket) {
    return JnaCalls.ripc_send(service, to, items, count, options, ticket);
  }

  @Override
  public int sendMany(long service, long to, long messages, int count, long sent) {
    return JnaCalls.ripc_send_many(service, to, messages, count, 0, 0, sent);
  }

  @Override
  public int receiveBatch(
      long service, int flags, long timeout, long buffer, int size, int capacity) {
    NativeBlock count = received.get();
    int status =
        JnaCalls.ripc_receive_records(
            service, flags, timeout, buffer, size, capacity, count.address);
    return status == 0 ? (int) count.bytes.getLong(0) : -status;
  }

  @Override
  public void releaseMessage(long message) {
    JnaCalls.ripc_message_release(message);
  }

  @Override
  public long addressOf(ByteBuffer direct) {
    return Pointer.nativeValue(Native.getDirectBufferPointer(direct));
  }

  @Override
  public String lastError() {
    return text(JnaCalls.ripc_last_error());
  }

  @Override
  public String statusText(int status) {
    return text(JnaCalls.ripc_status_text(status));
  }

  @Override
  public String version() {
    return text(JnaCalls.ripc_version());
  }

  @Override
  public ByteBuffer view(long address, long size) {
    return new Pointer(address).getByteBuffer(0, size).order(ByteOrder.nativeOrder());
  }

  @Override
  public int holdViews(long message, long hold) {
    return JnaCalls.ripc_message_hold_views(message, hold);
  }

  @Override
  public void releaseViews(long hold) {
    JnaCalls.ripc_view_hold_release(hold);
  }

  @Override
  public void copy(long to, long from, long size) {
    if (size != 0) LibC.memcpy(to, from, size);
  }

  private static String text(long address) {
    return new Pointer(address).getString(0, "UTF-8");
  }

  @Override
  public void contextOptionsInit(long options) {
    JnaCalls.ripc_context_options_init(options);
  }

  @Override
  public int contextCreate(long options, long context) {
    return JnaCalls.ripc_context_create(options, context);
  }

  @Override
  public void contextDestroy(long context) {
    JnaCalls.ripc_context_destroy(context);
  }

  @Override
  public int idFromName(long name, long id) {
    return JnaCalls.ripc_id_from_name(name, id);
  }

  @Override
  public int groupIdFromName(long name, long id) {
    return JnaCalls.ripc_group_id_from_name(name, id);
  }

  @Override
  public void serviceOptionsInit(long options) {
    JnaCalls.ripc_service_options_init(options);
  }

  @Override
  public int serviceRegister(long context, long options, long service) {
    return JnaCalls.ripc_service_register(context, options, service);
  }

  @Override
  public void serviceUnregister(long service) {
    JnaCalls.ripc_service_unregister(service);
  }

  @Override
  public long serviceId(long service) {
    return JnaCalls.ripc_service_get_id(service);
  }

  @Override
  public long serviceIncarnation(long service) {
    return JnaCalls.ripc_service_get_incarnation(service);
  }

  @Override
  public int serviceStatistics(long service, long statistics) {
    return JnaCalls.ripc_service_get_statistics(service, statistics);
  }

  @Override
  public int reply(long service, long message, long items, int count, long options, long ticket) {
    return JnaCalls.ripc_reply(service, message, items, count, options, ticket);
  }

  @Override
  public int requestCancel(long service, long request) {
    return JnaCalls.ripc_request_cancel(service, request);
  }

  @Override
  public int shortLimit(long service, long to, long items, long bytes) {
    return JnaCalls.ripc_short_limit(service, to, items, bytes);
  }

  @Override
  public int waitRoom(long service, long to, long timeout) {
    return JnaCalls.ripc_wait_room(service, to, timeout);
  }

  @Override
  public int requestRoomEvent(long service, long to) {
    return JnaCalls.ripc_request_room_event(service, to);
  }

  @Override
  public int ticketPoll(long ticket) {
    return JnaCalls.ripc_ticket_poll(ticket);
  }

  @Override
  public int ticketCancel(long ticket) {
    return JnaCalls.ripc_ticket_cancel(ticket);
  }

  @Override
  public void ticketRelease(long ticket) {
    JnaCalls.ripc_ticket_release(ticket);
  }

  @Override
  public int groupJoin(long service, long group) {
    return JnaCalls.ripc_group_join(service, group);
  }

  @Override
  public int groupLeave(long service, long group) {
    return JnaCalls.ripc_group_leave(service, group);
  }

  @Override
  public int windowPost(long service, long data, long size, long cookie) {
    return JnaCalls.ripc_window_post(service, data, size, cookie);
  }

  @Override
  public int contextWindowPost(long context, long data, long size, long cookie) {
    return JnaCalls.ripc_context_window_post(context, data, size, cookie);
  }

  @Override
  public int windowWithdraw(long service, long cookie, long count) {
    return JnaCalls.ripc_window_withdraw(service, cookie, count);
  }

  @Override
  public int contextWindowWithdraw(long context, long cookie, long count) {
    return JnaCalls.ripc_context_window_withdraw(context, cookie, count);
  }

  @Override
  public int interrupt(long service) {
    return JnaCalls.ripc_interrupt(service);
  }

  @Override
  public int serviceDescriptor(long service, long descriptor) {
    return JnaCalls.ripc_service_get_fd(service, descriptor);
  }

  @Override
  public int notificationRegister(long service, long callback, long user, long notification) {
    return JnaCalls.ripc_notification_register(service, callback, user, notification);
  }

  @Override
  public int notificationUnregister(long service, long notification) {
    return JnaCalls.ripc_notification_unregister(service, notification);
  }

  @Override
  public int notify(long service, long notification, long items, int count) {
    return JnaCalls.ripc_notify(service, notification, items, count);
  }

  @Override
  public int bufferLease(long context, long size, long data) {
    return JnaCalls.ripc_buffer_lease(context, size, data);
  }

  @Override
  public int bufferRelease(long context, long data) {
    return JnaCalls.ripc_buffer_release(context, data);
  }

  @Override
  public int memoryRegister(long context, long data, long size) {
    return JnaCalls.ripc_memory_register(context, data, size);
  }

  @Override
  public int memoryUnregister(long context, long data) {
    return JnaCalls.ripc_memory_unregister(context, data);
  }

  @Override
  public int poolStatistics(long context, long statistics) {
    return JnaCalls.ripc_pool_get_statistics(context, statistics);
  }

  @Override
  public int resolve(long context, long id, long info) {
    return JnaCalls.ripc_resolve(context, id, info);
  }

  @Override
  public int resolveName(long context, long name, long info) {
    return JnaCalls.ripc_resolve_name(context, name, info);
  }

  @Override
  public int findPath(long context, long id, long info) {
    return JnaCalls.ripc_find_path(context, id, info);
  }

  @Override
  public int listServices(long context, long visitor) {
    return JnaCalls.ripc_list_services(context, visitor, 0);
  }

  @Override
  public int groupMembers(long context, long group, long visitor) {
    return JnaCalls.ripc_group_members(context, group, visitor, 0);
  }

  @Override
  public int diagnose(long options, long visitor) {
    return JnaCalls.ripc_diagnose(options, visitor, 0);
  }
}
