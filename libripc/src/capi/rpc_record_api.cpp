// SPDX-License-Identifier: Apache-2.0
// Calls without callbacks, of the C interface.
#include <algorithm>
#include <array>

#include "capi/handles.hpp"
#include "capi/records.hpp"
#include "capi/rpc_handle.hpp"
#include "ripc/rpc_records.h"

using namespace ripc::internal;        // NOLINT: the C functions stand outside of any namespace
using namespace ripc::internal::capi;  // NOLINT

namespace {

using Event = rpc::Recorder::Event;

constexpr std::size_t kMostEvents = 32;
static_assert(sizeof(ripc_rpc_record) % kRecordAlignment == 0);

// Writes a record. Returns where the next one begins.
std::byte* write_event(const Event& event, std::byte* to, const std::byte* end) noexcept {
  auto* const head = reinterpret_cast<ripc_rpc_record*>(to);
  *head = {};
  head->user = event.user;
  std::byte* const items = to + sizeof *head;
  if (event.request != nullptr) {
    const ripc_request& request = *event.request;
    head->kind = RIPC_RPC_RECORD_REQUEST;
    head->code = request.method;
    head->request = event.request;
    head->deadline = request.deadline;
    const RecordWritten written = write_record(*request.message, request.items, items, end);
    written.record->tag = 0;
    if (written.is_needed) written.record->message = handle(request.message);
    return written.next;
  }
  const ripc_call_result& result = event.result;
  head->kind = RIPC_RPC_RECORD_END;
  head->code = result.code;
  head->outcome = result.outcome;
  head->status = result.status;
  if (result.message == nullptr) {
    auto* const record = reinterpret_cast<ripc_record*>(items);
    *record = {};
    record->record_size = sizeof *record;
    record->peer_identity = "";
    record->peer_user = UINT32_MAX;
    return items + sizeof *record;
  }
  core::Message* const message = from(result.message);
  const RecordWritten written = write_record(*message, {result.items, result.item_count}, items, end);
  written.record->tag = 0;
  written.record->in_reply_to = 0;
  if (written.is_needed) {
    written.record->message = result.message;
  } else {
    core::MessagePool::release(message);
  }
  return written.next;
}

}  // namespace

extern "C" {

ripc_status ripc_rpc_run_records(ripc_rpc* rpc, uint64_t timeout, void* records, size_t size, size_t* count) {
  return on_endpoint(rpc, [&](rpc::Endpoint& self) -> Status {
    if (records == nullptr || count == nullptr || reinterpret_cast<std::uintptr_t>(records) % kRecordAlignment != 0)
        [[unlikely]]
      return RIPC_INVALID_ARGUMENT;
    *count = 0;
    // A record's size is a number of 32 bits.
    size = std::min<std::size_t>(size, UINT32_MAX);
    std::array<Event, kMostEvents> events;
    const std::size_t most = std::min(size / RIPC_RPC_MAX_RECORD, kMostEvents);
    if (most == 0) return Status(RIPC_INVALID_ARGUMENT, "There is no room for one record: RIPC_RPC_MAX_RECORD.");
    Status status = self.run_recorded(timeout, std::span(events).first(most), *count);
    auto* next = static_cast<std::byte*>(records);
    const std::byte* const end = next + size;
    // Leave room for the records, without bytes, of the events that follow.
    for (std::size_t index = 0; index < *count; ++index)
      next = write_event(events[index], next, end - (*count - 1 - index) * RIPC_RPC_MAX_RECORD);
    return status;
  });
}

ripc_status ripc_rpc_close(ripc_rpc* rpc) {
  return on_endpoint(rpc, [](rpc::Endpoint& self) -> Status {
    self.close();
    return {};
  });
}

}  // extern "C"
