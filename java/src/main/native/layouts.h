// SPDX-License-Identifier: Apache-2.0
// What Java knows by number (org.libripc.internal.Layout), checked when this is compiled.
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "ripc/ripc.h"
#include "ripc/rpc_records.h"

#define RIPC_CHECK_SIZE(type, expected) static_assert(sizeof(type) == (expected), #type)
#define RIPC_CHECK_OFFSET(type, field, expected) static_assert(offsetof(type, field) == (expected), #type "." #field)

RIPC_CHECK_SIZE(ripc_context_options, 80);
RIPC_CHECK_OFFSET(ripc_context_options, runtime_directory, 8);
RIPC_CHECK_OFFSET(ripc_context_options, transports, 16);
RIPC_CHECK_OFFSET(ripc_context_options, static_resolver, 24);
RIPC_CHECK_OFFSET(ripc_context_options, pool_limit, 32);
RIPC_CHECK_OFFSET(ripc_context_options, resolve_timeout, 40);
RIPC_CHECK_OFFSET(ripc_context_options, spin, 48);
RIPC_CHECK_OFFSET(ripc_context_options, peer_policy, 56);
RIPC_CHECK_OFFSET(ripc_context_options, max_peers, 60);
RIPC_CHECK_OFFSET(ripc_context_options, cluster_key_file, 64);
RIPC_CHECK_OFFSET(ripc_context_options, network, 72);
RIPC_CHECK_SIZE(ripc_service_options, 48);
RIPC_CHECK_OFFSET(ripc_service_options, id, 8);
RIPC_CHECK_OFFSET(ripc_service_options, name, 16);
RIPC_CHECK_OFFSET(ripc_service_options, takeover, 24);
RIPC_CHECK_OFFSET(ripc_service_options, queue_messages, 28);
RIPC_CHECK_OFFSET(ripc_service_options, queue_bytes, 32);
RIPC_CHECK_OFFSET(ripc_service_options, max_senders, 36);
RIPC_CHECK_OFFSET(ripc_service_options, max_messages, 40);
RIPC_CHECK_SIZE(ripc_item, 24);
RIPC_CHECK_OFFSET(ripc_item, size, 8);
RIPC_CHECK_OFFSET(ripc_item, kind, 16);
RIPC_CHECK_OFFSET(ripc_item, return_index, 20);
RIPC_CHECK_SIZE(ripc_outgoing, 16);
RIPC_CHECK_OFFSET(ripc_outgoing, count, 8);
RIPC_CHECK_OFFSET(ripc_outgoing, tag, 12);
RIPC_CHECK_SIZE(ripc_return_buffer, 16);
RIPC_CHECK_OFFSET(ripc_return_buffer, size, 8);
RIPC_CHECK_SIZE(ripc_group_outcome, 32);
RIPC_CHECK_OFFSET(ripc_group_outcome, members, 8);
RIPC_CHECK_OFFSET(ripc_group_outcome, taken, 12);
RIPC_CHECK_OFFSET(ripc_group_outcome, missed, 16);
RIPC_CHECK_OFFSET(ripc_group_outcome, missed_capacity, 24);
RIPC_CHECK_SIZE(ripc_send_options, 72);
RIPC_CHECK_OFFSET(ripc_send_options, tag, 8);
RIPC_CHECK_OFFSET(ripc_send_options, return_count, 12);
RIPC_CHECK_OFFSET(ripc_send_options, returns, 16);
RIPC_CHECK_OFFSET(ripc_send_options, timeout, 24);
RIPC_CHECK_OFFSET(ripc_send_options, callback, 32);
RIPC_CHECK_OFFSET(ripc_send_options, user, 40);
RIPC_CHECK_OFFSET(ripc_send_options, request_id, 48);
RIPC_CHECK_OFFSET(ripc_send_options, outcome, 56);
RIPC_CHECK_OFFSET(ripc_send_options, flags, 64);
RIPC_CHECK_SIZE(ripc_item_view, 40);
RIPC_CHECK_OFFSET(ripc_item_view, size, 8);
RIPC_CHECK_OFFSET(ripc_item_view, kind, 16);
RIPC_CHECK_OFFSET(ripc_item_view, status, 20);
RIPC_CHECK_OFFSET(ripc_item_view, cookie, 24);
RIPC_CHECK_OFFSET(ripc_item_view, return_index, 32);
RIPC_CHECK_OFFSET(ripc_item_view, copied, 36);
RIPC_CHECK_SIZE(ripc_record, 40);
RIPC_CHECK_OFFSET(ripc_record, tag, 4);
RIPC_CHECK_OFFSET(ripc_record, source, 8);
RIPC_CHECK_OFFSET(ripc_record, in_reply_to, 16);
RIPC_CHECK_OFFSET(ripc_record, message, 24);
RIPC_CHECK_OFFSET(ripc_record, item_count, 32);
RIPC_CHECK_OFFSET(ripc_record, return_count, 36);
static_assert(RIPC_MAX_RECORD == 40 + RIPC_MAX_ITEMS * 40 + RIPC_MAX_RETURNS * 8, "RIPC_MAX_RECORD");
RIPC_CHECK_SIZE(ripc_notification, 16);
RIPC_CHECK_OFFSET(ripc_notification, handle, 8);
RIPC_CHECK_SIZE(ripc_pool_statistics, 104);
RIPC_CHECK_OFFSET(ripc_pool_statistics, registration_hits, 96);
RIPC_CHECK_SIZE(ripc_service_info, 2352);
RIPC_CHECK_OFFSET(ripc_service_info, incarnation, 16);
RIPC_CHECK_OFFSET(ripc_service_info, pid, 24);
RIPC_CHECK_OFFSET(ripc_service_info, name, 28);
RIPC_CHECK_OFFSET(ripc_service_info, transport, 236);
RIPC_CHECK_OFFSET(ripc_service_info, address, 252);
RIPC_CHECK_OFFSET(ripc_service_info, reason, 1276);
RIPC_CHECK_OFFSET(ripc_service_info, others, 1436);
RIPC_CHECK_OFFSET(ripc_service_info, group_count, 1836);
RIPC_CHECK_OFFSET(ripc_service_info, groups, 1840);
RIPC_CHECK_SIZE(ripc_rail_info, 232);
RIPC_CHECK_OFFSET(ripc_rail_info, device, 8);
RIPC_CHECK_OFFSET(ripc_rail_info, local, 72);
RIPC_CHECK_OFFSET(ripc_rail_info, peer, 136);
RIPC_CHECK_OFFSET(ripc_rail_info, bytes_sent, 200);
RIPC_CHECK_OFFSET(ripc_rail_info, bytes_received, 208);
RIPC_CHECK_OFFSET(ripc_rail_info, rate, 216);
RIPC_CHECK_OFFSET(ripc_rail_info, spare, 224);
RIPC_CHECK_OFFSET(ripc_rail_info, connections, 228);
RIPC_CHECK_SIZE(ripc_finding, 864);
RIPC_CHECK_OFFSET(ripc_finding, level, 8);
RIPC_CHECK_OFFSET(ripc_finding, subject, 12);
RIPC_CHECK_OFFSET(ripc_finding, text, 60);
RIPC_CHECK_OFFSET(ripc_finding, advice, 460);
RIPC_CHECK_SIZE(ripc_service_statistics, 200);
RIPC_CHECK_OFFSET(ripc_service_statistics, again, 88);
RIPC_CHECK_OFFSET(ripc_service_statistics, packets_duplicate, 184);
RIPC_CHECK_OFFSET(ripc_service_statistics, group_packets, 192);
RIPC_CHECK_SIZE(ripc_rpc_options, 32);
RIPC_CHECK_OFFSET(ripc_rpc_options, slots, 8);
RIPC_CHECK_OFFSET(ripc_rpc_options, queue, 12);
RIPC_CHECK_OFFSET(ripc_rpc_options, max_sessions, 16);
RIPC_CHECK_OFFSET(ripc_rpc_options, workers, 20);
RIPC_CHECK_OFFSET(ripc_rpc_options, worker_queue, 24);
RIPC_CHECK_OFFSET(ripc_rpc_options, recorded, 28);
RIPC_CHECK_SIZE(ripc_call_options, 56);
RIPC_CHECK_OFFSET(ripc_call_options, timeout, 8);
RIPC_CHECK_OFFSET(ripc_call_options, return_count, 16);
RIPC_CHECK_OFFSET(ripc_call_options, returns, 24);
RIPC_CHECK_OFFSET(ripc_call_options, parent, 32);
RIPC_CHECK_OFFSET(ripc_call_options, loan_ended, 40);
RIPC_CHECK_OFFSET(ripc_call_options, loan_user, 48);
RIPC_CHECK_SIZE(ripc_rpc_record, 40);
RIPC_CHECK_OFFSET(ripc_rpc_record, code, 4);
RIPC_CHECK_OFFSET(ripc_rpc_record, user, 8);
RIPC_CHECK_OFFSET(ripc_rpc_record, request, 16);
RIPC_CHECK_OFFSET(ripc_rpc_record, deadline, 24);
RIPC_CHECK_OFFSET(ripc_rpc_record, outcome, 32);
RIPC_CHECK_OFFSET(ripc_rpc_record, status, 36);
RIPC_CHECK_SIZE(ripc_rpc_statistics, 112);
RIPC_CHECK_OFFSET(ripc_rpc_statistics, calls, 8);
RIPC_CHECK_OFFSET(ripc_rpc_statistics, dropped, 104);
