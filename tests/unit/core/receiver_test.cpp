// SPDX-License-Identifier: Apache-2.0
// What a receiver makes of the packets of its ports.
#include "core/receive/receiver.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>

#include "fake_source.hpp"

namespace ripc::internal::core {
namespace {

class Receiving : public testing::Test {
 protected:
  void SetUp() override {
    loop_ = std::move(EventLoop::create()).value();
    transports_.push_back(std::make_unique<FakeTransport>(sources_));
    receiver_ = std::make_unique<Receiver>(Receiver::Parts{.life = life_,
                                                           .routes = routes_,
                                                           .pool = pool_,
                                                           .destinations = {windows_, shared_windows_, requests_},
                                                           .loop = *loop_,
                                                           .spin = {.time = 0, .adapts = false}});
    ASSERT_TRUE(receiver_->open(transports_, {}, pools_, 16).ok());
    sources_.push_back(std::make_shared<FakeSource>(1));
    peer_ = sources_.back().get();
  }
  void TearDown() override { receiver_->end(); }
  // One message at most, which is given back.
  ripc_status receive() {
    std::array<Message*, 1> messages{};
    std::size_t count = 0;
    const ripc_status status = receiver_->receive(0, 0, messages, count);
    if (count != 0) {
      tag_ = messages[0]->tag;
      MessagePool::release(messages[0]);
    }
    return status;
  }
  void send_broken() { peer_->packets.emplace_back(std::size_t{3}); }

  FakeSources sources_;
  std::unique_ptr<EventLoop> loop_;
  ServiceLife life_{EventSet::create().value()};
  EpochDomain epochs_;
  RouteTable routes_{epochs_};
  memory::Pool pool_{std::uint64_t{64} << 20};
  WindowQueue windows_, shared_windows_;
  RequestTable requests_;
  MessagePools pools_;
  std::vector<std::unique_ptr<spi::Transport>> transports_;
  std::unique_ptr<Receiver> receiver_;
  FakeSource* peer_ = nullptr;
  std::uint32_t tag_ = 0;
};

TEST_F(Receiving, APacketThatIsBrokenIsCountedAndHidesNoneBehindIt) {
  (void)life_.use_fd();
  for (int round = 0; round < 3; ++round) send_broken();
  peer_->send_short(5);
  EXPECT_EQ(receive(), RIPC_OK) << "no event would tell of the message";
  EXPECT_EQ(tag_, 5u);
  EXPECT_EQ(value(receiver_->counters().packets_corrupt), 3u);
  EXPECT_EQ(receive(), RIPC_EMPTY);
}

TEST_F(Receiving, TheAddressOfASenderIsLearnedFromItsFirstPacketWhateverItIs) {
  peer_->send_short(1);
  EXPECT_FALSE(routes_.learned(FakeSource::kService).has_value());
  EXPECT_EQ(receive(), RIPC_OK);
  EXPECT_EQ(routes_.learned(FakeSource::kService), peer_->facts().reply_address);
  routes_.forget(FakeSource::kService);
  sources_.push_back(std::make_shared<FakeSource>(1));
  sources_.back()->send_request(2, 1234);
  EXPECT_EQ(receive(), RIPC_OK);
  EXPECT_EQ(routes_.learned(FakeSource::kService), sources_.back()->facts().reply_address) << "of another source";
}

TEST_F(Receiving, AnInterruptAndAnEndOfTheWaitEndOneCallEach) {
  life_.end_wait();
  life_.interrupt();
  EXPECT_EQ(receive(), RIPC_INTERRUPTED);
  EXPECT_EQ(receive(), RIPC_TIMEOUT);
  peer_->send_short(6);
  life_.end_wait();
  EXPECT_EQ(receive(), RIPC_OK) << "what is there comes first";
  EXPECT_EQ(receive(), RIPC_TIMEOUT);
  EXPECT_EQ(receive(), RIPC_EMPTY);
}

}  // namespace
}  // namespace ripc::internal::core
