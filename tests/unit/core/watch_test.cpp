// SPDX-License-Identifier: Apache-2.0
// How services are waited for.
#include "core/watch.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <thread>

#include "core/context.hpp"
#include "fake_source.hpp"
#include "support/failing_allocation.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::core {
namespace {

// Like that of ZooKeeper, if no server answers.
class SilentResolver final : public FakeResolver {
 public:
  Result<spi::ServiceRecord> resolve(ripc_service_id, Deadline) override { return RIPC_TIMEOUT; }
};

TEST(Watches, FindTheWayBackToASenderWhileNoResolverAnswers) {
  constexpr ripc_service_id kPeer = 7;
  FakeSources sources;
  const Result<std::unique_ptr<Context>> context =
      Context::create(fake_parts(std::make_unique<FakeTransport>(sources), std::make_unique<SilentResolver>()));
  ASSERT_TRUE(context.ok()) << context.status().text();
  const auto look = [&] { return (*context)->watches().wait(kPeer, Deadline::after(0)).status().code(); };
  EXPECT_EQ(look(), RIPC_TIMEOUT);
  (*context)->paths().routes().learn(kPeer, {"fake", "said"});
  EXPECT_EQ(look(), RIPC_OK);
}

constexpr ripc_service_id kStopped = 8;
constexpr ripc_service_id kHealthy = 9;

// Every holder answers.
class AnsweringPeers : public FakeTransport {
 public:
  using FakeTransport::FakeTransport;
  Result<spi::Connected> connect(std::span<const spi::Address> addresses, ripc_service_id, Deadline) override {
    return spi::Connected{.channel = std::make_shared<FakeChannel>(), .address = addresses.front()};
  }
};

// Except that of kStopped.
class StoppedPeer final : public AnsweringPeers {
 public:
  using AnsweringPeers::AnsweringPeers;
  Result<spi::Connected> connect(std::span<const spi::Address> addresses, ripc_service_id id,
                                 Deadline deadline) override {
    if (id == kStopped) {
      ++attempts;
      while (!deadline.expired() && !answers) std::this_thread::yield();
      if (!answers) return spi::not_answering();
    }
    return AnsweringPeers::connect(addresses, id, deadline);
  }
  std::atomic<int> attempts{0};
  std::atomic<bool> answers{false};
};

class WatchesOfAStoppedPeer : public testing::Test {
 protected:
  void SetUp() override {
    auto made = std::make_unique<StoppedPeer>(sources_);
    peer_ = made.get();
    ContextParts parts = fake_parts(std::move(made));
    parts.resolve_timeout = 3'600'000'000'000;
    Result<std::unique_ptr<Context>> context = Context::create(std::move(parts));
    ASSERT_TRUE(context.ok()) << context.status().text();
    context_ = std::move(*context);
    const auto told = [&](ripc_status status, const Resolution&) { told_ = status; };
    ASSERT_TRUE(context_->watches().add(kStopped, told).ok());
    ASSERT_TRUE(support::eventually([&] { return peer_->attempts > 0; }));
  }

  FakeSources sources_;
  StoppedPeer* peer_ = nullptr;
  std::atomic<ripc_status> told_{RIPC_PENDING};
  std::unique_ptr<Context> context_;
};

TEST_F(WatchesOfAStoppedPeer, DoNotHoldUpOthers) {
  EXPECT_TRUE(context_->watches().wait(kHealthy, Deadline::after(0)).ok());
}

TEST_F(WatchesOfAStoppedPeer, DoNotHoldUpTheEndOfTheContext) { context_.reset(); }

TEST_F(WatchesOfAStoppedPeer, GoOnUntilItAnswers) {
  EXPECT_TRUE(support::eventually([&] { return peer_->attempts > 2; }));
  peer_->answers = true;
  EXPECT_TRUE(support::eventually([&] { return told_ == RIPC_OK; }));
}

// Counts the questions for one service.
class CountingResolver final : public FakeResolver {
 public:
  Result<spi::ServiceRecord> resolve(ripc_service_id id, Deadline deadline) override {
    if (id == kStopped) ++questions;
    Result<spi::ServiceRecord> record = FakeResolver::resolve(id, deadline);
    record->name = "a name that is too long for the string itself";
    return record;
  }
  std::atomic<int> questions{0};
};

TEST(Watches, AWaitThatFindsNoMemoryWatchesNoLonger) {
  FakeSources sources;
  auto made = std::make_unique<CountingResolver>();
  CountingResolver& resolver = *made;
  const Result<std::unique_ptr<Context>> context =
      Context::create(fake_parts(std::make_unique<AnsweringPeers>(sources), std::move(made)));
  ASSERT_TRUE(context.ok()) << context.status().text();
  WatchTable& watches = (*context)->watches();
  int failures = 0;
  for (std::uint64_t nth = 1; nth < 100; ++nth) {
    support::FailingAllocation failing(nth);
    try {
      (void)watches.wait(kStopped, Deadline::never());
    } catch (const std::bad_alloc&) {
      ++failures;
      continue;
    }
    if (!failing.failed()) break;
  }
  EXPECT_GT(failures, 0);
  const int before = resolver.questions;
  watches.changed(kStopped);
  ASSERT_TRUE(watches.wait(kHealthy, Deadline::after(0)).ok()) << "checked after all others";
  EXPECT_EQ(resolver.questions, before);
}

}  // namespace
}  // namespace ripc::internal::core
