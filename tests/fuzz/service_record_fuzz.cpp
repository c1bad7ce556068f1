// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of service records: any bytes are refused or understood, and what is understood can be written and
// read again. The first 8 bytes are the ID that the text is read for, little-endian; 0 stands for the ID in the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "require.hpp"
#include "resolver/local/service_record.hpp"

namespace {

using fuzz::require;
using ripc::internal::Result;
using ripc::internal::spi::ServiceRecord;

// The ID after the first "id":" in the text, so that mutations of the rest get past the comparison of IDs.
std::uint64_t id_in(std::string_view text) {
  constexpr std::string_view kKey = "\"id\":\"";
  const std::size_t at = text.find(kKey);
  if (at == std::string::npos) return 1;
  std::uint64_t id = 0;
  for (const char c : text.substr(at + kKey.size(), 16)) {
    const std::size_t digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos) break;
    id = id << 4 | digit;
  }
  return id;
}

void check(const Result<ServiceRecord>& record, std::uint64_t id, bool may_have_version) {
  if (!record.ok()) {
    require(record.status() == RIPC_CORRUPT || (may_have_version && record.status() == RIPC_VERSION_MISMATCH));
    require(!record.status().text().empty());
    return;
  }
  require(record->id == id && id != 0 && !ripc::internal::is_group(id) &&
          ripc::internal::is_group_list(record->groups));
  const Result<std::string> text = ripc::internal::resolver::encode_service_record(*record);
  if (!text.ok()) {
    require(record.ok() && text.status() == RIPC_LIMIT);  // the body alone can be just below the limit
    return;
  }
  const Result<ServiceRecord> again = ripc::internal::resolver::decode_service_record(*text, id);
  require(again.ok());
  require(again->id == record->id && again->name == record->name && again->incarnation == record->incarnation &&
          again->context == record->context && again->pid == record->pid && again->addresses == record->addresses &&
          again->groups == record->groups);
  require(
      !ripc::internal::resolver::decode_service_record(std::string_view(*text).substr(0, text->size() - 2), id).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint64_t id = 0;
  const std::size_t id_size = std::min<std::size_t>(size, 8);
  for (std::size_t i = 0; i < id_size; ++i) id |= std::uint64_t{data[i]} << (8 * i);
  const std::string_view text(reinterpret_cast<const char*>(data) + id_size, size - id_size);
  if (id == 0) id = id_in(text);
  check(ripc::internal::resolver::decode_service_record(text, id), id, true);
  check(ripc::internal::resolver::decode_record_body(text, id), id, false);
  return 0;
}
