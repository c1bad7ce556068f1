// SPDX-License-Identifier: Apache-2.0
// Receives into memory of the caller, for languages in which calls are expensive.
#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "base/copy.hpp"
#include "capi/error.hpp"
#include "capi/handles.hpp"
#include "capi/records.hpp"

using namespace ripc::internal;        // NOLINT: the C functions stand outside of any namespace
using namespace ripc::internal::capi;  // NOLINT

namespace {

// Limits the messages of one call, which are kept on its stack.
constexpr std::size_t kMostAtOnce = 64;
constexpr std::size_t kAlignment = kRecordAlignment;
static_assert(alignof(ripc_record) <= kAlignment && alignof(ripc_item_view) <= kAlignment);
static_assert(sizeof(ripc_record) % kAlignment == 0 && sizeof(ripc_item_view) % kAlignment == 0);

constexpr std::size_t aligned(std::size_t size) noexcept { return (size + kAlignment - 1) & ~(kAlignment - 1); }

// Copies short items behind a record as long as there is room.
class ShortItems {
 public:
  ShortItems(std::byte* begin, const std::byte* end) noexcept : next_(begin), end_(end) {}

  // False: there is no room.
  bool take(ripc_item_view& view) noexcept {
    const auto room = static_cast<std::size_t>(end_ - next_);
    if (view.size > room || aligned(view.size) > room) return false;
    copy_small(next_, static_cast<const std::byte*>(view.data), view.size);
    view.data = next_;
    next_ += aligned(view.size);
    return true;
  }

  std::byte* end_of_taken() const noexcept { return next_; }

 private:
  std::byte* next_;
  const std::byte* end_;
};

}  // namespace

namespace ripc::internal::capi {

RecordWritten write_record(const core::Message& message, std::span<const ripc_item_view> items, std::byte* to,
                           const std::byte* end) noexcept {
  auto* record = reinterpret_cast<ripc_record*>(to);
  auto* views = reinterpret_cast<ripc_item_view*>(record + 1);
  auto* returns = reinterpret_cast<std::uint64_t*>(views + items.size());
  std::size_t return_count = 0;
  if (message.attachments) [[unlikely]] {
    for (const wire::Grant& grant : message.attachments->grants) returns[return_count++] = grant.length;
  }
  bool is_needed = false;
  ShortItems bytes(reinterpret_cast<std::byte*>(returns + return_count), end);
  for (std::size_t index = 0; index < items.size(); ++index) {
    ripc_item_view& view = views[index] = items[index];
    if (view.kind == RIPC_VIEW_SHORT ? !bytes.take(view) : view.kind == RIPC_VIEW_LENT) is_needed = true;
  }
  *record = {.record_size = static_cast<std::uint32_t>(bytes.end_of_taken() - to),
             .tag = message.tag,
             .source = message.source,
             .in_reply_to = message.in_reply_to,
             .message = nullptr,
             .item_count = static_cast<std::uint32_t>(items.size()),
             .return_count = static_cast<std::uint32_t>(return_count),
             .peer_identity = message.peer != nullptr ? message.peer->identity.c_str() : "",
             .peer_is_on_this_host = message.peer != nullptr && message.peer->user ? 1U : 0U,
             .peer_user = message.peer != nullptr ? message.peer->user.value_or(UINT32_MAX) : UINT32_MAX};
  return {record, is_needed, bytes.end_of_taken()};
}

}  // namespace ripc::internal::capi

extern "C" ripc_status ripc_receive_records(ripc_service* service, uint32_t flags, uint64_t timeout, void* records,
                                            size_t size, size_t capacity, size_t* count) {
  if (records == nullptr || count == nullptr || (flags & ~std::uint32_t{RIPC_RECEIVE_LEND}) != 0 ||
      reinterpret_cast<std::uintptr_t>(records) % kAlignment != 0) [[unlikely]]
    return report(RIPC_INVALID_ARGUMENT);
  *count = 0;
  if (const ripc_status status = check(from(service)); status != RIPC_OK) [[unlikely]]
    return report(status);
  // A record's size is a number of 32 bits.
  size = std::min<std::size_t>(size, std::numeric_limits<std::uint32_t>::max());
  const std::size_t most = std::min({capacity, size / RIPC_MAX_RECORD, kMostAtOnce});
  if (most == 0) [[unlikely]]
    return report(RIPC_INVALID_ARGUMENT);
  std::array<core::Message*, kMostAtOnce> messages;
  std::size_t received = 0;
  const ripc_status status = from(service)->receive(flags, timeout, std::span(messages).first(most), received);
  if (status != RIPC_OK) return report_receive(status);
  auto* next = static_cast<std::byte*>(records);
  const std::byte* const end = next + size;
  // Leave room for the records, without bytes, of the messages that follow.
  for (std::size_t index = 0; index < received; ++index) {
    core::Message* const message = messages[index];
    const RecordWritten written = write_record(*message, {message->items, message->item_count}, next,
                                               end - (received - 1 - index) * RIPC_MAX_RECORD);
    next = written.next;
    if (written.is_needed || written.record->return_count != 0) {
      written.record->message = handle(message);
    } else {
      core::MessagePool::release(message);
    }
  }
  *count = received;
  return RIPC_OK;
}
