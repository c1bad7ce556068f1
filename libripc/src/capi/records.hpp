// SPDX-License-Identifier: Apache-2.0
// Writes messages into memory of the caller (ripc_record), for languages in which calls are expensive.
#pragma once

#include <cstddef>
#include <span>

#include "core/state/message.hpp"
#include "ripc/ripc.h"

namespace ripc::internal::capi {

// The alignment of records, and of the memory for them.
inline constexpr std::size_t kRecordAlignment = 8;

struct RecordWritten {
  ripc_record* record = nullptr;
  bool is_needed = false;     // views point into memory of the message itself
  std::byte* next = nullptr;  // where the next record begins
};

// Writes a record without its field `message`. `items` are those of the message. `to` has room for the largest record,
// and for bytes up to `end`.
RecordWritten write_record(const core::Message& message, std::span<const ripc_item_view> items, std::byte* to,
                           const std::byte* end) noexcept;

}  // namespace ripc::internal::capi
