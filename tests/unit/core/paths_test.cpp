// SPDX-License-Identifier: Apache-2.0
// How the path to a service is found.
#include "core/path/paths.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>

#include "scripted_peers.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::core {
namespace {

class FindingPaths : public ScriptedPeers {
 protected:
  // Adds a transport after the existing one.
  ScriptedTransport& add_transport() {
    parts_.transports.push_back(std::make_unique<ScriptedTransport>(sources_, "next"));
    resolver_.also = {"next", "peer"};
    return static_cast<ScriptedTransport&>(*parts_.transports.back());
  }
  Result<std::shared_ptr<spi::Channel>> find() { return paths_.channel_to(kPeer, resolutions_); }
};

TEST_F(FindingPaths, APreferredTransportThatDoesNotAnswerLeavesTimeForTheNext) {
  ScriptedTransport& next = add_transport();
  transport_.failure = RIPC_TIMEOUT;
  const auto channel = std::make_shared<ScriptedChannel>();
  next.ways[kPeer].push_back(channel);
  const Result<std::shared_ptr<spi::Channel>> found = find();
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, channel);
  ASSERT_EQ(transport_.asked.size(), 1u);
  EXPECT_LE(transport_.asked[0].deadline.at() + parts_.resolve_timeout / 4, next.asked.at(0).deadline.at());
}

TEST_F(FindingPaths, ARefusalIsReportedRatherThanTheSilenceOfTheNextTransport) {
  ScriptedTransport& next = add_transport();
  transport_.failure = Status(RIPC_REFUSED, "another key");
  EXPECT_EQ(find().status().text(), "another key");
  transport_.failure = RIPC_PEER_DEAD;
  next.failure = Status(RIPC_REFUSED, "another user");
  EXPECT_EQ(find().status().text(), "another user");
}

TEST_F(FindingPaths, ALearnedAddressCountsOnlyIfNoResolverKnowsBetterAndAlsoAfterAFailure) {
  paths_.routes().learn(kPeer, {"fake", "said"});
  const auto known = lead_and_connect(kPeer);
  EXPECT_EQ(transport_.asked.back().locator, "peer");
  paths_.drop(*known);
  resolver_.knows = false;
  (void)lead_and_connect(kPeer);
  EXPECT_EQ(transport_.asked.back().locator, "said");
  paths_.drop(**find());
  EXPECT_EQ(find().status().code(), RIPC_NO_SERVICE) << "as the resolver says";
  // The link from which it was learned does not report it again.
  (void)lead_and_connect(kPeer);
}

TEST_F(FindingPaths, AServiceThatIsRestartingIsLookedForUntilItIsThere) {
  int looks = 0;
  std::shared_ptr<ScriptedChannel> channel;
  resolver_.on_invalidate = [&](ripc_service_id) {
    if (++looks == 2) channel = lead(kPeer);
  };
  const Result<std::shared_ptr<spi::Channel>> found = find();
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, channel);
  EXPECT_EQ(value(resolutions_), 3u);
}

TEST_F(FindingPaths, AChannelThatAnotherOneReplacesIsFreed) {
  std::shared_ptr<ScriptedChannel> former = lead_and_connect(kPeer);
  former->die();
  const std::weak_ptr<ScriptedChannel> rest = std::exchange(former, nullptr);
  (void)lead_and_connect(kPeer);
  std::thread responder([this] { loop_->run(); });
  EXPECT_TRUE(support::eventually([&] { return rest.expired(); }));
  loop_->stop();
  responder.join();
}

TEST_F(FindingPaths, ASearchThatFailsForWantOfMemoryLetsOthersSearch) {
  resolver_.no_memory = true;
  EXPECT_EQ(find().status().code(), RIPC_NO_MEMORY);
  const auto channel = lead(kPeer);
  const Result<std::shared_ptr<spi::Channel>> found = find();
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, channel);
}

TEST_F(FindingPaths, AFormerHolderIsNotifiedAtTheFirstAddressThatAnswersAndNeverInThisContext) {
  spi::ServiceRecord former;
  former.context = 2;
  former.member = "bank";
  former.addresses = {{"unknown", "a"}, {"fake", "silent"}, {"fake", "b"}, {"fake", "c"}};
  paths_.fence_former(former, 9);
  EXPECT_EQ(transport_.fenced, (std::vector<std::string>{"bank@silent", "bank@b"}));
  former.context = parts_.id;
  paths_.fence_former(former, 9);
  EXPECT_EQ(transport_.fenced.size(), 2u);
}

}  // namespace
}  // namespace ripc::internal::core
