// SPDX-License-Identifier: Apache-2.0
// The C++ headers: identities, trust, the self-check and rails have the values of the C interface.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cpp_wrapper.hpp"
#include "ripc/identity.hpp"

namespace {

using ripc::bytes_of;
using ripc::Context;
using ripc::Service;
using wrapper::CppWrapper;
using wrapper::kPatience;

// The C interface would see only the part before the zero, which names another file.
TEST_F(CppWrapper, ATextWithAZeroNamesNoFile) {
  const std::string whole = folder_.path() + "/key";
  const std::string more = whole + std::string(1, '\0') + "more";
  EXPECT_EQ(ripc::create_identity(more).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc::create_cluster_key(more).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_FALSE(std::filesystem::exists(whole));
  ASSERT_TRUE(ripc::create_identity(whole).ok());
  EXPECT_EQ(ripc::read_identity(more).code(), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc::read_trust(more).code(), RIPC_INVALID_ARGUMENT);
  ripc::ContextOptions options;
  options.runtime_directory = folder_.path();
  options.identity_file = more;
  const auto refused = Context::create(options);
  EXPECT_EQ(refused.code(), RIPC_INVALID_ARGUMENT);
  EXPECT_NE(std::string(refused.error().text()).find("zero byte"), std::string::npos) << refused.error().text();
  EXPECT_EQ(Context::diagnose(options).code(), RIPC_INVALID_ARGUMENT);
}

TEST_F(CppWrapper, AMessageSaysWhoItIsFromAndTheContextWhatItHasRefused) {
  const std::string identity = folder_.path() + "/identity";
  const std::string trust = folder_.path() + "/trust";
  const auto made = ripc::create_identity(identity);
  ASSERT_TRUE(made.ok()) << made.error().text();
  const std::string line = made->public_key + " user=" + std::to_string(::getuid());
  ASSERT_EQ(ripc_trust_change(trust.c_str(), "me", line.c_str(), nullptr), RIPC_OK) << ripc_last_error();
  const auto members = ripc::read_trust(trust);
  ASSERT_TRUE(members.ok()) << members.error().text();
  ASSERT_EQ(members->size(), 1U);
  EXPECT_EQ(members->front().line, 1U);
  EXPECT_EQ(members->front().name, "me");
  EXPECT_EQ(members->front().public_key, made->public_key);
  EXPECT_EQ(members->front().rights, "user=" + std::to_string(::getuid()));
  ripc::ContextOptions options;
  options.runtime_directory = folder_.path();
  options.trust_file = trust;
  auto trusting = Context::create(options);
  ASSERT_TRUE(trusting.ok()) << trusting.error().text();
  Service service = registered(*trusting, {});
  ASSERT_TRUE(sender_.send(service.id(), bytes_of("x")).ok());
  const auto message = service.receive(kPatience);
  ASSERT_TRUE(message.ok()) << message.error().text();
  EXPECT_EQ(message->peer().identity, "me");
  EXPECT_EQ(message->peer().user, ::getuid());
  EXPECT_TRUE(trusting->trust_status().ok());
  std::ofstream(trust) << "nonsense\n";
  EXPECT_EQ(trusting->trust_status().code(), RIPC_INVALID_ARGUMENT);
  const auto refused = trusting->security_statistics();
  ASSERT_TRUE(refused.ok()) << refused.error().text();
  EXPECT_EQ(refused->trust_failures, 1U);
  EXPECT_EQ(refused->links_refused, 0U);
}

TEST_F(CppWrapper, TheSelfCheckReturnsItsFindings) {
  ripc::ContextOptions options;
  options.runtime_directory = folder_.path();
  options.transports = "pigeon";
  const auto findings = Context::diagnose(options);
  ASSERT_TRUE(findings.ok()) << findings.error().text();
  ASSERT_GT(findings->size(), 1U);
  EXPECT_EQ(findings->front().level, 0U) << findings->front().text;
  const ripc::Finding& broken = findings->back();
  EXPECT_EQ(broken.level, 2U);
  EXPECT_EQ(broken.subject, "settings");
  EXPECT_NE(broken.text.find("pigeon"), std::string::npos) << broken.text;
  EXPECT_EQ(broken.advice, "correct what it names");
}

TEST(CppContext, RailsAreThoseOfTheCInterface) {
  const support::TemporaryDirectory folder;
  ripc::ContextOptions options;
  options.runtime_directory = folder.path();
  options.transports = "socket";
  options.cluster_key_file = folder.path() + "/key";
  ASSERT_TRUE(ripc::create_cluster_key(options.cluster_key_file).ok());
  auto here = Context::create(options);
  auto there = Context::create(options);
  ASSERT_TRUE(here.ok() && there.ok()) << here.error().text() << there.error().text();
  Service sender = *here->register_service();
  Service receiver = *there->register_service();
  const std::vector<std::byte> content(300'000, std::byte{5});
  std::vector<std::byte> window(content.size());
  ASSERT_TRUE(receiver.post_window(window).ok());
  const auto ticket = sender.send(receiver.id(), ripc::borrow(content));
  ASSERT_TRUE(receiver.receive(kPatience).ok());
  const auto rails = there->rails(sender.id());
  ASSERT_TRUE(rails.ok()) << rails.error().text();
  ASSERT_EQ(rails->size(), 1U);
  ripc_rail_info expected{};
  const ripc_rail_visitor keep = [](void* to, const ripc_rail_info* rail) {
    *static_cast<ripc_rail_info*>(to) = *rail;
  };
  ASSERT_EQ(ripc_list_rails(there->handle(), sender.id(), keep, &expected), RIPC_OK);
  const ripc::RailInfo& rail = rails->front();
  EXPECT_EQ(rail.device, expected.device);
  EXPECT_EQ(rail.local, expected.local);
  EXPECT_EQ(rail.peer, expected.peer);
  EXPECT_GE(rail.bytes_received, content.size());
  EXPECT_LT(rail.bytes_sent, content.size());
  EXPECT_EQ(rail.rate, expected.rate);
  EXPECT_FALSE(rail.spare);
  EXPECT_EQ(rail.connections, expected.connections);
}

}  // namespace
