// SPDX-License-Identifier: Apache-2.0
// Waiting for room at a peer that dies meanwhile.
#include <gtest/gtest.h>

#include "core/context.hpp"
#include "core/service.hpp"
#include "fake_source.hpp"

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

}  // namespace
}  // namespace ripc::internal::core
