// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of the static resolver's file: any bytes are understood, or refused with the line that is wrong.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

#include "require.hpp"
#include "resolver/static/static_file.hpp"

namespace {

using fuzz::require;
using ripc::internal::Result;

Result<ripc_service_id> hash_name(std::string_view name) {
  if (name.empty() || name.size() > 200 || name.find('/') != std::string_view::npos)
    return ripc::internal::Status(RIPC_INVALID_ARGUMENT);
  return (ripc_service_id{1} << 63) | (std::hash<std::string_view>()(name) >> 2);
}

Result<ripc_service_id> hash_group(std::string_view name) {
  const Result<ripc_service_id> service = hash_name(name);
  if (!service.ok()) return service;
  return (ripc_service_id{3} << 61) | (*service & RIPC_GROUP_NUMBER_MAX);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto records = ripc::internal::resolver::parse_static_file(
      text, "FILE", hash_name, hash_group, [](const ripc::internal::spi::Address& address) {
        return address.transport == "shm" && address.locator.front() != '/'
                   ? ripc::internal::Status(RIPC_INVALID_ARGUMENT)
                   : ripc::internal::Status();
      });
  if (!records.ok()) {
    require(records.status() == RIPC_INVALID_ARGUMENT);
    require(records.status().text().starts_with("FILE, line "));
    return 0;
  }
  std::unordered_set<ripc_service_id> ids;
  for (const ripc::internal::spi::ServiceRecord& record : *records) {
    require(!ripc::internal::is_group(record.id) && ripc::internal::is_group_list(record.groups));
    require(record.id != 0 && ids.insert(record.id).second);
    require(record.name.empty() || *hash_name(record.name) == record.id);
    require(!record.addresses.empty() && record.addresses.size() <= ripc::internal::spi::kMaxAddresses);
    for (const ripc::internal::spi::Address& address : record.addresses) {
      require(!address.transport.empty() && !address.locator.empty());
      require(text.find(address.transport + ":" + address.locator) != std::string::npos);
    }
  }
  return 0;
}
