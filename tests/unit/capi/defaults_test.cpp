// SPDX-License-Identifier: Apache-2.0
// The defaults that the public headers document are those that the code uses.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <string>

#include "capi/compose.hpp"
#include "core/service_table.hpp"
#include "rpc/endpoint.hpp"
#include "support/initialized.hpp"

namespace ripc::internal::capi {
namespace {

using Numbers = std::map<std::string, std::uint64_t>;

std::string read_header(const std::string& name) {
  std::ifstream file(std::string(RIPC_SOURCE_DIR "/libripc/include/ripc/") + name);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

// The number in the comment after a field of an options structure: "0: 128", or "by default 5 seconds".
std::optional<std::uint64_t> documented(const std::string& header, const std::string& structure,
                                        const std::string& field) {
  const std::size_t begin = header.find("typedef struct " + structure + " {");
  const std::string text =
      begin == std::string::npos ? "" : header.substr(begin, header.find("} " + structure) - begin);
  std::smatch found;
  const std::regex line("uint(32|64)_t " + field + "; +/\\*[^*]*(; 0: |by default )([0-9]+)( seconds?)?");
  if (!std::regex_search(text, found, line)) return std::nullopt;
  return std::stoull(found[3]) * (found[4].matched ? 1'000'000'000 : 1);
}

TEST(Defaults, OfServicesAreThoseOfTheHeader) {
  const core::ServiceOptions options;
  const std::string header = read_header("service.h");
  for (const auto& [field, value] : Numbers{{"queue_messages", options.queue_messages},
                                            {"queue_bytes", options.queue_bytes},
                                            {"max_senders", options.max_senders},
                                            {"max_messages", options.max_messages}})
    EXPECT_EQ(documented(header, "ripc_service_options", field), value) << field;
}

TEST(Defaults, OfContextsAreThoseOfTheHeader) {
  ripc_context_options options = support::initialized(ripc_context_options_init);
  options.transports = "shm";
  const Result<Settings> settings = read_settings(options);
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  const std::string header = read_header("context.h");
  for (const auto& [field, value] :
       Numbers{{"max_peers", settings->max_peers}, {"resolve_timeout", settings->resolve_timeout}})
    EXPECT_EQ(documented(header, "ripc_context_options", field), value) << field;
}

TEST(Defaults, ASearchForAServiceTakesAnHourAtMost) {
  ripc_context_options options = support::initialized(ripc_context_options_init);
  options.transports = "shm";
  options.resolve_timeout = RIPC_FOREVER;
  const Result<Settings> settings = read_settings(options);
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  EXPECT_EQ(settings->resolve_timeout, 3'600'000'000'000);
}

TEST(Defaults, OfEndpointsOfCallsAreThoseOfTheHeader) {
  const rpc::Endpoint::Options options;
  const std::string header = read_header("rpc.h");
  for (const auto& [field, value] : Numbers{{"slots", options.client.slots},
                                            {"queue", options.client.queue},
                                            {"max_sessions", options.server.max_sessions},
                                            {"worker_queue", options.worker_queue}})
    EXPECT_EQ(documented(header, "ripc_rpc_options", field), value) << field;
  // RemoteCalls.HaveFiveSecondsByDefault checks that the handler of a call sees this time.
  EXPECT_EQ(documented(header, "ripc_call_options", "timeout"), 5'000'000'000u);
}

}  // namespace
}  // namespace ripc::internal::capi
