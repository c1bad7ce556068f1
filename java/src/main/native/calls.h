// SPDX-License-Identifier: Apache-2.0
// The functions that Java calls by name: the native methods of org.libripc.internal.NativeCalls and LibC, which have
// the same names. J is a long, a pointer or a size_t, I an int, V nothing; the result comes first.
//
// Both lists expand to Cn(name, result, arguments ...) for each function with n arguments.
#pragma once

#define RIPC_CALLS(C0, C1, C2, C3, C4, C5, C6, C7, C9) \
  C6(ripc_send, I, J, J, J, J, J, J)                   \
  C7(ripc_send_many, I, J, J, J, J, J, J, J)           \
  C7(ripc_receive_records, I, J, I, J, J, J, J, J)     \
  C1(ripc_message_release, V, J)                       \
  C2(ripc_message_hold_views, I, J, J)                 \
  C1(ripc_view_hold_release, V, J)                     \
  C0(ripc_last_error, J)                               \
  C1(ripc_status_text, J, I)                           \
  C0(ripc_version, J)                                  \
  C1(ripc_context_options_init, V, J)                  \
  C2(ripc_context_create, I, J, J)                     \
  C1(ripc_context_destroy, V, J)                       \
  C2(ripc_id_from_name, I, J, J)                       \
  C2(ripc_group_id_from_name, I, J, J)                 \
  C1(ripc_service_options_init, V, J)                  \
  C3(ripc_service_register, I, J, J, J)                \
  C1(ripc_service_unregister, V, J)                    \
  C1(ripc_service_get_id, J, J)                        \
  C1(ripc_service_get_incarnation, J, J)               \
  C2(ripc_service_get_statistics, I, J, J)             \
  C6(ripc_reply, I, J, J, J, J, J, J)                  \
  C2(ripc_request_cancel, I, J, J)                     \
  C4(ripc_short_limit, I, J, J, J, J)                  \
  C3(ripc_wait_room, I, J, J, J)                       \
  C2(ripc_request_room_event, I, J, J)                 \
  C1(ripc_ticket_poll, I, J)                           \
  C1(ripc_ticket_cancel, I, J)                         \
  C1(ripc_ticket_release, V, J)                        \
  C2(ripc_group_join, I, J, J)                         \
  C2(ripc_group_leave, I, J, J)                        \
  C4(ripc_window_post, I, J, J, J, J)                  \
  C4(ripc_context_window_post, I, J, J, J, J)          \
  C3(ripc_window_withdraw, I, J, J, J)                 \
  C3(ripc_context_window_withdraw, I, J, J, J)         \
  C1(ripc_interrupt, I, J)                             \
  C2(ripc_service_get_fd, I, J, J)                     \
  C4(ripc_notification_register, I, J, J, J, J)        \
  C2(ripc_notification_unregister, I, J, J)            \
  C4(ripc_notify, I, J, J, J, J)                       \
  C3(ripc_buffer_lease, I, J, J, J)                    \
  C2(ripc_buffer_release, I, J, J)                     \
  C3(ripc_memory_register, I, J, J, J)                 \
  C2(ripc_memory_unregister, I, J, J)                  \
  C2(ripc_pool_get_statistics, I, J, J)                \
  C2(ripc_security_get_statistics, I, J, J)            \
  C1(ripc_trust_status, I, J)                          \
  C3(ripc_resolve, I, J, J, J)                         \
  C3(ripc_resolve_name, I, J, J, J)                    \
  C3(ripc_find_path, I, J, J, J)                       \
  C5(ripc_service_watch, I, J, J, J, J, J)             \
  C1(ripc_service_unwatch, V, J)                       \
  C3(ripc_list_services, I, J, J, J)                   \
  C4(ripc_list_rails, I, J, J, J, J)                   \
  C4(ripc_group_members, I, J, J, J, J)                \
  C3(ripc_diagnose, I, J, J, J)                        \
  C3(ripc_rpc_create, I, J, J, J)                      \
  C1(ripc_rpc_close, I, J)                             \
  C1(ripc_rpc_destroy, V, J)                           \
  C5(ripc_rpc_handle, I, J, I, I, J, J)                \
  C9(ripc_rpc_call, I, J, J, I, J, J, J, J, J, J)      \
  C2(ripc_rpc_cancel, I, J, J)                         \
  C2(ripc_call_text, J, I, I)                          \
  C5(ripc_rpc_run_records, I, J, J, J, J, J)           \
  C5(ripc_request_reply, I, J, I, J, J, J)             \
  C2(ripc_request_drop, V, J, I)                       \
  C2(ripc_request_refuse, V, J, I)                     \
  C1(ripc_request_time_left, J, J)                     \
  C2(ripc_rpc_get_statistics, I, J, J)                 \
  C3(ripc_rpc_list_methods, I, J, J, J)

#define LIBC_CALLS(C1, C2, C3, C4, C6) \
  C1(epoll_create1, I, I)              \
  C4(epoll_ctl, I, I, I, I, J)         \
  C4(epoll_wait, I, I, J, I, I)        \
  C2(eventfd, I, I, I)                 \
  C3(write, J, I, J, J)                \
  C1(close, I, I)                      \
  C3(memcpy, J, J, J, J)               \
  C1(strlen, J, J)                     \
  C1(strerror, J, I)                   \
  C6(process_vm_readv, J, I, J, J, J, J, J)
