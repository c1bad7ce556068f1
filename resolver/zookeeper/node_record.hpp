// SPDX-License-Identifier: Apache-2.0
// What the resolver keeps in a directory: where, and in which form (docs/wire.md, "Records in a directory"). A
// service's folder is a hash of its ID, so that no folder has too many nodes. The record of a service decides which
// groups it is in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "security/credentials.hpp"
#include "spi/record_rights.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::resolver {

inline constexpr unsigned kServiceFolders = 256;
inline constexpr std::size_t kServicePathSize = 22;  // paths of groups are shorter

std::string service_folder(unsigned number);
std::string service_path(ripc_service_id id);
std::string group_path(ripc_service_id group);
std::string member_path(ripc_service_id group, ripc_service_id id, std::uint64_t session);

// The ID that a path, or the name of a node, ends with; 0: none.
ripc_service_id id_of_service(std::string_view path) noexcept;
ripc_service_id id_of_group(std::string_view path) noexcept;
ripc_service_id id_of_member(std::string_view name) noexcept;

// `session`: the one that will own the node, not 0.
std::string encode_record(const spi::ServiceRecord& record, std::uint64_t session,
                          const security::Credentials& credentials);

enum class RecordCheck : std::uint8_t {
  good,
  malformed,
  other_version,
  unsigned_one,
  signed_one,
  forged,
  replayed,       // a good one, but of another node: someone has copied it
  unproven,       // refused by the trust file: see spi::Refusals
  not_permitted,  // refused by the trust file: see spi::Refusals
};

// `text`: any bytes. Unless the result is `good`, the record must not be used. A good record may have lost groups,
// which `refusals` counts. `id`: the ID in the path. `owner`: the session that owns the node; 0: none.
RecordCheck decode_record(std::string_view text, ripc_service_id id, std::uint64_t owner,
                          const security::Credentials& credentials, const spi::NameHash& hash_name,
                          spi::ServiceRecord& record, spi::Refusals& refusals);

}  // namespace ripc::internal::resolver
