// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of service records: any bytes are refused or understood, and what is understood can be written and
// read again. The first 8 bytes are the ID that the text is read for, little-endian; 0 stands for the ID in the text.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
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

// A record with this inner object and its check sum, which no mutation would find.
std::string whole_of(std::string_view body) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : body) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  const bool has_groups = body.find("\"groups\"") != std::string_view::npos;
  std::string whole = has_groups ? "{\"format\":2,\"check\":\"" : "{\"format\":1,\"check\":\"";
  whole += digits.data();
  whole += "\",\"record\":";
  whole += body;
  whole += "}\n";
  return whole;
}

void check(const Result<ServiceRecord>& record, std::uint64_t id) {
  if (!record.ok()) {
    require(record.status() == RIPC_CORRUPT || record.status() == RIPC_VERSION_MISMATCH);
    require(!record.status().text().empty());
    return;
  }
  require(record->id == id && id != 0 && !ripc::internal::is_group(id) &&
          ripc::internal::is_group_list(record->groups));
  const Result<std::string> text = ripc::internal::resolver::encode_service_record(*record);
  if (!text.ok()) {
    require(text.status() == RIPC_LIMIT);  // a writer adds a line feed
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
  check(ripc::internal::resolver::decode_service_record(text, id), id);
  check(ripc::internal::resolver::decode_service_record(whole_of(text), id), id);
  return 0;
}
