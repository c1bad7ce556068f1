// SPDX-License-Identifier: Apache-2.0
// The text of a service record, as the local resolver keeps it in services/<16 hex digits>. One JSON object:
//
//   {"format":1, "check":"16 hex digits", "record":{"addresses":[{"locator":"...", "transport":"..."}],
//    "context":"16 hex digits", "groups":["16 hex digits"], "id":"16 hex digits", "incarnation":N, "name":"...",
//    "pid":N}}
//
// in this order and without spaces, then a line feed, and perhaps spaces. `check` is the FNV-1a hash of the record's
// text. It tells a whole record from one that is just being overwritten in place, not a genuine one from a forged one.
// A new member needs a new format. Without groups, the member is left out and the
// format is 1. With groups the format is 2, and an older libripc leaves the record alone. A context of 0 marks a record
// that was withdrawn but could not be removed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::resolver {

inline constexpr std::size_t kMaxRecordSize = std::size_t{64} << 10;  // bytes of the whole text

// RIPC_INVALID_ARGUMENT if the record breaks a rule that decode_service_record() checks; RIPC_LIMIT if the text would
// be larger than kMaxRecordSize.
Result<std::string> encode_service_record(const spi::ServiceRecord& record);

// The record of the service `id`. RIPC_CORRUPT for anything that encode_service_record() does not make, and for a
// record of another ID; RIPC_VERSION_MISMATCH for another format number. Any bytes are allowed.
Result<spi::ServiceRecord> decode_service_record(std::string_view text, ripc_service_id id);

}  // namespace ripc::internal::resolver
