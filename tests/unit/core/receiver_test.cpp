// SPDX-License-Identifier: Apache-2.0
// What a receiver does with the packets from its ports.
#include "core/receive/receiver.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fake_source.hpp"
#include "support/process_state.hpp"
#include "support/waiting.hpp"
#include "unit/base/eventfd_helpers.hpp"

namespace ripc::internal::core {
namespace {

constexpr Nanoseconds kLongSpin = 30'000'000'000;

class Receiving : public testing::Test {
 protected:
  void SetUp() override {
    loop_ = std::move(EventLoop::create()).value();
    transports_.push_back(std::make_unique<FakeTransport>(sources_));
    open_receiver({.time = kLongSpin, .adapts = false});
    sources_.push_back(std::make_shared<FakeSource>(1));
    peer_ = sources_.back().get();
  }
  void TearDown() override { receiver_->end(); }
  void open_receiver(Spin spin) {
    receiver_ = std::make_unique<Receiver>(Receiver::Parts{.life = life_,
                                                           .routes = routes_,
                                                           .pool = pool_,
                                                           .destinations = {windows_, shared_windows_, requests_},
                                                           .loop = *loop_,
                                                           .sent = sent_,
                                                           .spin = spin});
    ASSERT_TRUE(receiver_->open(transports_, {}, pools_, 16).ok());
  }
  // Receives at most one message and releases it.
  ripc_status receive(Nanoseconds timeout = 0) {
    std::array<Message*, 1> messages{};
    std::size_t count = 0;
    const ripc_status status = receiver_->receive(0, timeout, messages, count);
    if (count != 0) {
      tag_ = messages[0]->tag;
      MessagePool::release(messages[0]);
    }
    return status;
  }
  Message* receive_message() {
    std::array<Message*, 1> messages{};
    std::size_t count = 0;
    EXPECT_EQ(receiver_->receive(0, 0, messages, count), RIPC_OK);
    return messages[0];
  }
  std::uint64_t leased() {
    ripc_pool_statistics statistics{};
    pool_.fill_statistics(statistics);
    return statistics.leased;
  }
  // Whether the message's first item has the bytes of send_large().
  static bool is_large(const Message& message, std::size_t size) {
    const auto* const bytes = static_cast<const std::byte*>(message.items[0].data);
    bool is_right = message.items[0].kind == RIPC_VIEW_SHORT && message.items[0].size == size;
    for (std::size_t index = 0; is_right && index < size; ++index)
      is_right = bytes[index] == static_cast<std::byte>(index);
    return is_right;
  }
  void send_broken() { peer_->packets.emplace_back(std::size_t{3}); }

  FakeSources sources_;
  std::unique_ptr<EventLoop> loop_;
  TicketSender sent_;
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

TEST_F(Receiving, ALargePacketStaysWhereItWasReadUntilItsMessageIsReleased) {
  peer_->send_large(1, 100'000);
  peer_->send_large(2, 50'000, 1234);
  peer_->send_short(3);
  Message* const plain = receive_message();
  EXPECT_TRUE(is_large(*plain, 100'000));
  const std::uint64_t first = leased();
  EXPECT_GE(first, 100'000u);
  EXPECT_LT(first, 101'000u);
  Message* const request = receive_message();
  EXPECT_TRUE(is_large(*request, 50'000));
  EXPECT_EQ(request->request, 1234u);
  ASSERT_NE(request->attachments, nullptr);
  EXPECT_EQ(request->attachments->grants.size(), 1u);
  EXPECT_GE(leased(), first + 50'000);
  EXPECT_EQ(hold_views(*request).status(), RIPC_EMPTY) << "nothing is lent";
  MessagePool::release(request);
  EXPECT_EQ(leased(), first);
  MessagePool::release(plain);
  EXPECT_LT(leased(), first);
  // The next message does not use that memory.
  Message* const small = receive_message();
  EXPECT_EQ(small->tag, 3u);
  EXPECT_EQ(small->storage, small->own_storage());
  MessagePool::release(small);
}

TEST_F(Receiving, ALargePacketThatMakesNoMessageKeepsNoMemory) {
  (void)life_.use_fd();
  peer_->packets.emplace_back(std::size_t{100'000});
  peer_->send_large(2, 50'000);
  Message* const message = receive_message();
  EXPECT_TRUE(is_large(*message, 50'000));
  MessagePool::release(message);
  EXPECT_EQ(leased(), 0u);
  EXPECT_EQ(value(receiver_->counters().packets_corrupt), 1u);
}

TEST_F(Receiving, ALargePacketIsReceivedWhereThePoolHasReachedItsLimit) {
  const Result<std::byte*> all = pool_.lease(std::size_t{32} << 20);
  ASSERT_TRUE(all.ok());
  std::vector<std::byte*> rest;
  for (Result<std::byte*> more = pool_.lease(1 << 20); more.ok(); more = pool_.lease(1 << 20)) rest.push_back(*more);
  const std::uint64_t before = leased();
  peer_->send_large(1, std::size_t{2} << 20);
  Message* const message = receive_message();
  EXPECT_TRUE(is_large(*message, std::size_t{2} << 20));
  MessagePool::release(message);
  EXPECT_EQ(leased(), before);
  for (std::byte* const data : rest) EXPECT_TRUE(pool_.release(data).ok());
  EXPECT_TRUE(pool_.release(*all).ok());
}

TEST_F(Receiving, TheAddressOfASenderIsLearnedFromItsFirstPacketWhateverItIs) {
  peer_->send_short(1);
  EXPECT_FALSE(routes_.learned(FakeSource::kService).has_value());
  EXPECT_EQ(receive(), RIPC_OK);
  EXPECT_EQ(routes_.learned(FakeSource::kService), peer_->facts().reply_address);
  routes_.learn(FakeSource::kService, {"fake", "moved"});
  sources_.push_back(std::make_shared<FakeSource>(1));
  sources_.back()->send_request(2, 1234);
  EXPECT_EQ(receive(), RIPC_OK);
  EXPECT_EQ(routes_.learned(FakeSource::kService), sources_.back()->facts().reply_address) << "of another source";
}

TEST_F(Receiving, WithOneProcessorItSpinsForPeersOnOtherHostsUntilOneOnThisHostSends) {
  receiver_->end();
  open_receiver({.time = kLongSpin, .adapts = false, .remote_only = true});
  const auto sleeps_of_a_wait = [this] {
    const std::uint64_t before = value(receiver_->counters().sleeps);
    EXPECT_EQ(receive(1'000'000), RIPC_TIMEOUT);
    return value(receiver_->counters().sleeps) - before;
  };
  EXPECT_EQ(sleeps_of_a_wait(), 1u) << "it knows no peer";
  spi::PeerTable peers{{}};
  const auto send_from = [&](std::optional<uid_t> user) {
    sources_.push_back(std::make_shared<FakeSource>(1, &peers, peers.enter({.identity = {}, .user = user})));
    sources_.back()->send_short(1);
    EXPECT_EQ(receive(), RIPC_OK);
  };
  send_from({});
  EXPECT_EQ(sleeps_of_a_wait(), 0u);
  send_from(getuid());
  EXPECT_EQ(sleeps_of_a_wait(), 1u);
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

TEST_F(Receiving, AWaitThatMaySpinSleepsWhileAnotherThreadServesWhatWasSent) {
  EXPECT_EQ(receive(1'000'000), RIPC_TIMEOUT);
  EXPECT_EQ(receiver_->counters().sleeps, 0u);
  sent_.reported = 1;
  EXPECT_EQ(receive(1'000'000), RIPC_TIMEOUT);
  EXPECT_EQ(receiver_->counters().sleeps, 1u) << "only the loop can";
  const UniqueFd fd = make_eventfd();
  on_signal(loop_->shared().descriptors(), fd, [] {});
  SharedSet::Borrowed others(loop_->shared());
  EXPECT_EQ(receive(1'000'000), RIPC_TIMEOUT);
  EXPECT_EQ(receiver_->counters().sleeps, 2u);
  others.give_back();
  EXPECT_EQ(receive(1'000'000), RIPC_TIMEOUT);
  EXPECT_EQ(receiver_->counters().sleeps, 2u) << "it serves that itself";
}

// No thread runs the loop here.
TEST_F(Receiving, AWaitMovesTheBytesOfItsMessageItselfWhetherItSpinsOrSleeps) {
  std::array<std::byte, FakeSource::kLength> window{};
  std::uint64_t key = 10;
  const UniqueFd fd = make_eventfd();
  HandlerSet& shared = loop_->shared().descriptors();
  on_signal(shared, fd, [&] {
    peer_->complete(key);
    life_.events().wake();
  });
  for (const Nanoseconds time : {kLongSpin, Nanoseconds{0}}) {
    receiver_->end();
    open_receiver({.time = time, .adapts = false});
    ASSERT_TRUE(windows_.post(window.data(), window.size(), 0).ok());
    peer_->send_long(1, {++key});
    std::jthread bytes([&, waiter = gettid()] {
      if (time == 0) (void)support::eventually([&] { return support::state_of_thread(waiter) == 'S'; });
      signal(fd);
    });
    EXPECT_EQ(receive(kPatience), RIPC_OK);
    EXPECT_EQ(window[0], static_cast<std::byte>(key));
    EXPECT_EQ(receiver_->counters().sleeps, time == 0 ? 1u : 0u);
    EXPECT_EQ(life_.events().sleep(Deadline::after(0), monotonic_now()), RIPC_TIMEOUT) << "it did not wake itself";
  }
  // The wait has given the shared descriptors back, and may be woken again.
  EXPECT_TRUE(SharedSet::Borrowed(loop_->shared()));
  shared.remove(fd.get());
  life_.events().wake();
  EXPECT_EQ(life_.events().sleep(Deadline::after(kPatience), monotonic_now()), RIPC_OK);
}

// The wait sleeps for most of its time, and spins for the rest.
TEST_F(Receiving, AWaitThatIsAwakeBeforeItsEndEndsThen) {
  receiver_->end();
  open_receiver({.time = 50'000, .adapts = true});
  for (std::uint32_t tag = 1; tag <= 3; ++tag) {
    peer_->send_short(tag);
    EXPECT_EQ(receive(), RIPC_OK);
    constexpr Nanoseconds kTimeout = 2'000'000;
    const Nanoseconds begin = monotonic_now();
    EXPECT_EQ(receive(kTimeout), RIPC_TIMEOUT);
    EXPECT_GE(monotonic_now(), begin + kTimeout);
    EXPECT_EQ(receiver_->counters().sleeps, tag);
  }
}

}  // namespace
}  // namespace ripc::internal::core
