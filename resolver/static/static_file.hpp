// SPDX-License-Identifier: Apache-2.0
// The text of a file of known services:
//
//   # comment, to the end of the line
//   file-server         socket:10.0.0.7:7000  socket:[fd00::7]:7000
//   "name with spaces"  shm:/run/site/ripc
//   1000                socket:10.0.0.8:7000
//   0x8000000000000001  socket:10.0.0.9:7000  group:caches  group:7
//
// Each line has one service: a name or an ID (decimal, or hexadecimal after 0x), then its addresses, best first, each
// TRANSPORT:LOCATOR. The meaning of a locator depends on its transport. A name that has spaces, or starts with a digit,
// a '#' or a quotation mark, is written in quotation marks; there are no escapes. group:NAME or group:NUMBER makes the
// service a member of a group; a number is that of RIPC_GROUP_ID().
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
