// SPDX-License-Identifier: Apache-2.0
// Waiting for room at a peer that dies meanwhile, and in a group that grows meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/context.hpp"
#include "core/service.hpp"
#include "fake_source.hpp"
#include "support/waiting.hpp"

namespace ripc::internal::core {
namespace {

// The peer is full, and dies as soon as anyone checks for room; from then on the channel reports room.
class DyingChannel final : public FakeChannel {
 public:
  bool has_room(bool) noexcept override {
    die();
    return true;
  }
};

// Connects to the peer once; from then on the peer is dead.
class OncePeer final : public FakeTransport {
 public:
  using FakeTransport::FakeTransport;
  Result<spi::Connected> connect(std::span<const spi::Address>, ripc_service_id, Deadline) override {
    if (++attempts_ > 1) return Status(RIPC_PEER_DEAD, "the peer has gone");
    return spi::Connected{.channel = std::make_shared<DyingChannel>()};
  }

 private:
  int attempts_ = 0;
};

class Room : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Context>> context = Context::create(fake_parts(std::make_unique<OncePeer>(sources_)));
    ASSERT_TRUE(context.ok()) << context.status().text();
    context_ = std::move(*context);
    const Result<Service*> service = context_->services().add({});
    ASSERT_TRUE(service.ok()) << service.status().text();
    service_ = *service;
  }

  static constexpr ripc_service_id kPeer = 7;
  FakeSources sources_;
  std::unique_ptr<Context> context_;
  Service* service_ = nullptr;
};

TEST_F(Room, OfAPeerThatDiesDuringTheLookIsNoRoom) {
  EXPECT_EQ(service_->wait_room(kPeer, Deadline::never()).code(), RIPC_PEER_DEAD);
}

TEST_F(Room, WithoutWaitingIsLeftToTheSend) {
  EXPECT_EQ(service_->wait_room(kPeer, Deadline::after(0)).code(), RIPC_OK);
  EXPECT_TRUE(service_->request_room_event(kPeer).ok());
}

// A group whose only member is full, until another one joins.
class GrowingGroup final : public FakeResolver {
 public:
  Status members(ripc_service_id group, Deadline, const spi::Visit& visit) override {
    ++looks;
    for (ripc_service_id id = 1; id <= members_now; ++id) {
      spi::ServiceRecord record;
      record.id = id;
      record.incarnation = 1;
      record.addresses = {{"fake", "peer"}};
      record.groups = {group};
      visit(record);
    }
    return {};
  }
  std::atomic<int> looks{0};
  std::atomic<ripc_service_id> members_now{1};
};

class FullPeers final : public FakeTransport {
 public:
  using FakeTransport::FakeTransport;
  class FullChannel final : public FakeChannel {
   public:
    ripc_status send_many(std::span<const wire::Plain>, std::size_t& sent) noexcept override {
      sent = 0;
      return RIPC_AGAIN;
    }
    bool has_room(bool) noexcept override { return false; }
  };
  Result<spi::Connected> connect(std::span<const spi::Address>, ripc_service_id, Deadline) override {
    return spi::Connected{.channel = std::make_shared<FullChannel>()};
  }
};

TEST(GroupRoom, IsAtAMemberThatJoinsDuringTheWait) {
  FakeSources sources;
  auto made = std::make_unique<GrowingGroup>();
  GrowingGroup& group = *made;
  ContextParts parts = fake_parts(std::make_unique<FullPeers>(sources), std::move(made));
  parts.group_refresh = 1'000'000;
  const Result<std::unique_ptr<Context>> context = Context::create(std::move(parts));
  ASSERT_TRUE(context.ok()) << context.status().text();
  const Result<Service*> service = (*context)->services().add({});
  ASSERT_TRUE(service.ok()) << service.status().text();
  Counter resolutions{0};
  ASSERT_TRUE((*context)->paths().channel_to(1, resolutions).ok());
  std::jthread joins([&] {
    // The wait looks twice before it sleeps.
    EXPECT_TRUE(support::eventually([&] { return group.looks >= 2; }));
    group.members_now = 2;
  });
  const Status waited = (*service)->wait_room(RIPC_GROUP_ID(7), Deadline::after(support::kLimit));
  EXPECT_EQ(waited.code(), RIPC_OK);
}

}  // namespace
}  // namespace ripc::internal::core
