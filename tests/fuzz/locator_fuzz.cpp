// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of socket addresses. Any text is either refused with advice or understood. An understood text
// is within its limits and stays the same when it is written and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "remote/session/locator.hpp"
#include "require.hpp"

namespace {

using fuzz::require;
using ripc::internal::remote::Endpoint;
using ripc::internal::remote::Locator;

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const ripc::internal::Result<Locator> read = Locator::parse(text);
  if (!read.ok()) {
    require(read.status() == RIPC_INVALID_ARGUMENT);
    return 0;
  }
  require(read->port != 0 && !read->ips.empty() && read->ips.size() <= ripc::internal::remote::kMaxIps);
  const ripc::internal::Result<Locator> again = Locator::parse(read->text());
  require(again.ok());
  require(again->context == read->context && again->host == read->host && again->port == read->port);
  require(again->ips == read->ips);
  const std::vector<Endpoint> all = read->endpoints(read->host);
  require(all.size() == read->ips.size());
  for (const Endpoint& endpoint : all) {
    require(endpoint.port() == read->port);
    require(read->context != 0 || read->leads_to(1, endpoint, read->host));
  }
  return 0;
}
