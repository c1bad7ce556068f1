// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of RIPC_MULTICAST. Any text is understood, or refused with the item that is wrong. An
// understood text is within its limits and stays the same when it is written and read again.
#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "require.hpp"
#include "resolver/multicast/options.hpp"

namespace {

using fuzz::require;
using ripc::internal::Result;
using ripc::internal::resolver::MulticastGroup;
using ripc::internal::resolver::MulticastOptions;

std::string text_of(const MulticastOptions& options) {
  std::string text = "ttl=" + std::to_string(options.ttl) + ",probe=" + std::to_string(options.probe_time / 1'000'000);
  if (!options.fabric) text += ",udp";
  if (!options.udp) text += ",fabric";
  for (const MulticastGroup& group : options.groups) text += "," + group.text();
  for (const std::string& interface : options.interfaces) text += ",interface=" + interface;
  return text;
}

bool is_multicast(const MulticastGroup& group) {
  return group.is_ipv6 ? IN6_IS_ADDR_MULTICAST(&group.ipv6) : IN_MULTICAST(ntohl(group.ipv4.s_addr));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Result<MulticastOptions> read = ripc::internal::resolver::parse_multicast_options(text);
  if (!read.ok()) {
    require(read.status() == RIPC_INVALID_ARGUMENT);
    require(read.status().text().starts_with("RIPC_MULTICAST: '"));
    return 0;
  }
  require(read->udp || read->fabric);
  require(!read->groups.empty() && read->groups.size() <= ripc::internal::resolver::kMaxMulticastGroups &&
          read->ttl <= 255);
  require(std::all_of(read->groups.begin(), read->groups.end(),
                      [](const MulticastGroup& group) { return group.port != 0 && is_multicast(group); }));
  const Result<MulticastOptions> again = ripc::internal::resolver::parse_multicast_options(text_of(*read));
  require(again.ok() && text_of(*again) == text_of(*read));
  return 0;
}
