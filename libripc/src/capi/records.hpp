// SPDX-License-Identifier: Apache-2.0
// Messages written into memory of the caller, for languages in which calls are dear: ripc_record.
#pragma once

#include <cstddef>
#include <span>

#include "core/state/message.hpp"
#include "ripc/ripc.h"

namespace ripc::internal::capi {

// Of records, and of memory for them.
inline constexpr std::size_t kRecordAlignment = 8;

struct RecordWritten {
  ripc_record* record = nullptr;
  bool is_needed = false;     // views show memory of the message itself
  std::byte* next = nullptr;  // where the next record begins
};

// Without `message`; `items` are of the message. `to` has room for the largest record, and for bytes up to `end`.
RecordWritten write_record(const core::Message& message, std::span<const ripc_item_view> items, std::byte* to,
                           const std::byte* end) noexcept;

}  // namespace ripc::internal::capi
