// SPDX-License-Identifier: Apache-2.0
// Numbers that the public headers promise: the defaults, the second within which contexts follow a trust file, and the
// fields of the security statistics.
#include <gtest/gtest.h>

#include <string>

#include "../base/process_helpers.hpp"
#include "capi/compose.hpp"
#include "capi/handles.hpp"
#include "core/service_table.hpp"
#include "rpc/endpoint.hpp"
#include "spi/peer.hpp"
#include "support/handles.hpp"
#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::capi {
namespace {

using test::Environment;

TEST(Promises, OptionsThatAreNotSetHaveTheDefaultsOfTheHeaders) {
  const core::ServiceOptions service;
  EXPECT_EQ(service.queue_messages, 128U);
  EXPECT_EQ(service.queue_bytes, 8192U);
  EXPECT_EQ(service.max_senders, 4096U);
  EXPECT_EQ(service.max_messages, 65536U);
  const rpc::Endpoint::Options endpoint;
  EXPECT_EQ(endpoint.client.slots, 8U);
  EXPECT_EQ(endpoint.client.queue, 1024U);
  EXPECT_EQ(endpoint.server.max_sessions, 65536U);
  EXPECT_EQ(endpoint.workers, 0U);
  EXPECT_EQ(endpoint.worker_queue, 1024U);
  const Environment network("RIPC_NETWORK", "off");
  ripc_context_options options;
  ripc_context_options_init(&options);
  const Result<Settings> settings = read_settings(options);
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  EXPECT_EQ(settings->max_peers, 4096U);
  EXPECT_EQ(settings->resolve_timeout, 1'000'000'000U);
  EXPECT_EQ(settings->encrypt, std::uint32_t{RIPC_ENCRYPT_AUTO});
}

// For open links and for new ones, with time left to read the file. Other tests check that links follow it.
TEST(Promises, ATrustFileIsLookedAtWithinASecond) {
  EXPECT_LE(spi::kTrustPause, 900'000'000U);
  EXPECT_LE(security::TrustFile::kInterval, 900'000'000U);
}

TEST(Promises, SecurityStatisticsHaveEachCountInItsField) {
  const test::TemporaryDirectory directory;
  const std::string trust = directory.path() + "/trust";
  security::write_file(trust, "alice " + security::key_of(1) + "\n");
  const Environment network("RIPC_NETWORK", "off");
  ripc_context_options options;
  ripc_context_options_init(&options);
  options.runtime_directory = directory.path().c_str();
  options.trust_file = trust.c_str();
  ripc_context* made = nullptr;
  ASSERT_EQ(ripc_context_create(&options, &made), RIPC_OK) << ripc_last_error();
  const support::Context context(made);
  security::write_file(trust, "bob " + security::key_of(2) + "\n");
  EXPECT_EQ(ripc_trust_status(made), RIPC_OK);
  security::write_file(trust, "alice " + security::key_of(1) + "\n");
  EXPECT_EQ(ripc_trust_status(made), RIPC_OK);
  security::write_file(trust, "nonsense\n");
  EXPECT_EQ(ripc_trust_status(made), RIPC_INVALID_ARGUMENT);
  security::Counters& counters = *from(made)->credentials().counters;
  counters.handshakes_refused = 1;
  counters.links_refused = 20;
  counters.records_refused = 300;
  counters.packets_forged = 4000;
  counters.packets_replayed = 50000;
  counters.packets_not_admitted = 600000;
  ripc_security_statistics statistics;
  ripc_security_statistics_init(&statistics);
  ASSERT_EQ(ripc_security_get_statistics(made, &statistics), RIPC_OK);
  EXPECT_EQ(statistics.handshakes_refused, 1U);
  EXPECT_EQ(statistics.links_refused, 20U);
  EXPECT_EQ(statistics.records_refused, 300U);
  EXPECT_EQ(statistics.packets_refused, 654000U);
  EXPECT_EQ(statistics.trust_reloads, 2U);
  EXPECT_EQ(statistics.trust_failures, 1U);
}

}  // namespace
}  // namespace ripc::internal::capi
