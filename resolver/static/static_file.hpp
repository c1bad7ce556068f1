// SPDX-License-Identifier: Apache-2.0
// The text of a file of known services, which docs/deployment.md describes. In quotation marks, a name has no escapes.
// A group's number is that of RIPC_GROUP_ID().
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::resolver {

inline constexpr std::size_t kMaxStaticFileSize = std::size_t{16} << 20;

using spi::NameHash;
// What is wrong with an address; RIPC_OK: nothing.
using AddressCheck = std::function<Status(const spi::Address&)>;

// The records in the order of the lines. RIPC_INVALID_ARGUMENT, with `file` and the line, for the first mistake; any
// bytes are allowed. Incarnation, context and pid of the records are 0. hash_group: hashes the names of groups.
Result<std::vector<spi::ServiceRecord>> parse_static_file(std::string_view text, std::string_view file,
                                                          const NameHash& hash_name, const NameHash& hash_group,
                                                          const AddressCheck& check_address);

}  // namespace ripc::internal::resolver
