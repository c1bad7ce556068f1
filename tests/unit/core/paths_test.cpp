// SPDX-License-Identifier: Apache-2.0
// How the path to a service is found.
#include "core/path/paths.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "scripted_peers.hpp"
#include "support/process_state.hpp"
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

// The holder does not answer the first attempt.
class FirstUnanswered final : public FakeTransport {
 public:
  using FakeTransport::FakeTransport;
  Result<spi::Connected> connect(std::span<const spi::Address> addresses, ripc_service_id id,
                                 Deadline deadline) override {
    if (++attempts > 1) return FakeTransport::connect(addresses, id, deadline);
    EXPECT_TRUE(support::eventually([&] { return other_waits && other_waits(); }));
    return spi::not_answering();
  }
  std::atomic<int> attempts{0};
  std::function<bool()> other_waits;
};

TEST(SharedSearch, ThatEndsEarlierForAnotherThreadGoesOnForThisOne) {
  FakeSources sources;
  auto made = std::make_unique<FirstUnanswered>(sources);
  FirstUnanswered& transport = *made;
  const ContextParts parts = fake_parts(std::move(made));
  const std::unique_ptr<EventLoop> loop = EventLoop::create().value();
  Paths paths(parts, *loop);
  std::atomic<pid_t> other{0};
  transport.other_waits = [&] { return other != 0 && support::state_of_thread(other) == 'S'; };
  std::jthread sender;
  {
    std::jthread watcher([&] { EXPECT_EQ(paths.find_path(7).status(), RIPC_TIMEOUT); });
    ASSERT_TRUE(support::eventually([&] { return transport.attempts == 1; }));
    sender = std::jthread([&] {
      other = ::gettid();
      Counter resolutions{0};
      const auto channel = paths.channel_to(7, resolutions);
      EXPECT_TRUE(channel.ok()) << channel.status().text();
    });
  }
  sender.join();
  paths.shut_down();
  loop->clear();
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
