// SPDX-License-Identifier: Apache-2.0
#include "core/state/route_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "fake_transport.hpp"

namespace ripc::internal::core {
namespace {

std::shared_ptr<FakeChannel> make_channel() { return std::make_shared<FakeChannel>(); }

class RouteTableTest : public testing::Test {
 protected:
  // Looks up a route as a sender does. The tests only compare the pointer.
  const spi::Channel* find(ripc_service_id id) {
    const ThreadEpoch::Section section(ThreadEpoch::current());
    const auto* channel = routes_.find(id);
    return channel == nullptr ? nullptr : channel->get();
  }

  EpochDomain epochs_;
  RouteTable routes_{epochs_};
};

TEST_F(RouteTableTest, FindsNothingAtFirst) {
  EXPECT_EQ(find(0), nullptr);
  EXPECT_EQ(find(1), nullptr);
  EXPECT_EQ(find(UINT64_MAX), nullptr);
}

TEST_F(RouteTableTest, FindsWhatWasInserted) {
  const auto first = make_channel(), second = make_channel();
  EXPECT_EQ(routes_.insert(1, {.channel = first}), first);
  EXPECT_EQ(routes_.insert(2, {.channel = second}), second);
  EXPECT_EQ(find(1), first.get());
  EXPECT_EQ(find(2), second.get());
  EXPECT_EQ(find(3), nullptr);
}

TEST_F(RouteTableTest, KeepsALivingChannelAndReplacesADeadOne) {
  const auto first = make_channel(), second = make_channel();
  routes_.insert(1, {.channel = first});
  EXPECT_EQ(routes_.insert(1, {.channel = second}), first);
  EXPECT_EQ(find(1), first.get());
  first->die();
  EXPECT_EQ(routes_.insert(1, {.channel = second}), second);
  EXPECT_EQ(find(1), second.get());
}

TEST_F(RouteTableTest, TellsTheWholeWayWhileItsChannelLives) {
  const auto channel = make_channel();
  routes_.insert(1, {.channel = channel, .address = {"shm", "a"}, .is_on_this_host = true});
  const std::optional<spi::Connected> way = routes_.open_path(1);
  ASSERT_TRUE(way);
  EXPECT_EQ(way->channel, channel);
  EXPECT_EQ(way->address, (spi::Address{"shm", "a"}));
  EXPECT_TRUE(way->is_on_this_host);
  EXPECT_FALSE(routes_.open_path(2));
  channel->die();
  EXPECT_FALSE(routes_.open_path(1));
}

TEST_F(RouteTableTest, RemovesAChannelWhereverItIs) {
  const auto both = make_channel(), other = make_channel();
  routes_.insert(1, {.channel = both});
  routes_.insert(2, {.channel = other});
  routes_.insert(3, {.channel = both});
  routes_.remove(*both);
  EXPECT_EQ(find(1), nullptr);
  EXPECT_EQ(find(2), other.get());
  EXPECT_EQ(find(3), nullptr);
  routes_.remove(*both);
  const auto again = make_channel();
  EXPECT_EQ(routes_.insert(1, {.channel = again}), again);
  EXPECT_EQ(find(1), again.get());
}

TEST_F(RouteTableTest, KeepsARemovedChannelUntilNoSectionCanSeeIt) {
  auto channel = make_channel();
  const std::weak_ptr<FakeChannel> watch = channel;
  routes_.insert(1, {.channel = channel});
  {
    const ThreadEpoch::Section section(ThreadEpoch::current());
    const auto* found = routes_.find(1);
    ASSERT_NE(found, nullptr);
    routes_.remove(*channel);
    channel.reset();
    EXPECT_FALSE(epochs_.reclaim());
    EXPECT_FALSE(watch.expired());
    EXPECT_TRUE((*found)->alive());
  }
  EXPECT_TRUE(epochs_.reclaim());
  EXPECT_TRUE(watch.expired());
}

TEST_F(RouteTableTest, HoldsManyRoutesAndStaysCorrectWhenTheyComeAndGo) {
  std::vector<std::shared_ptr<FakeChannel>> channels;
  // Multiples of a large power of two: the worst keys for a table that uses only the low bits.
  const auto id_of = [](std::size_t index) { return (static_cast<ripc_service_id>(index) + 1) << 40; };
  for (std::size_t index = 0; index < 1000; ++index) {
    channels.push_back(make_channel());
    routes_.insert(id_of(index), {.channel = channels.back()});
  }
  for (std::size_t index = 0; index < 1000; index += 2) routes_.remove(*channels[index]);
  for (std::size_t index = 0; index < 1000; ++index)
    ASSERT_EQ(find(id_of(index)), index % 2 == 0 ? nullptr : channels[index].get()) << index;
  for (int round = 0; round < 2000; ++round) {
    const auto passing = make_channel();
    routes_.insert(7, {.channel = passing});
    ASSERT_EQ(find(7), passing.get()) << round;
    routes_.remove(*passing);
    ASSERT_EQ(find(7), nullptr) << round;
  }
  for (std::size_t index = 1; index < 1000; index += 2) ASSERT_EQ(find(id_of(index)), channels[index].get());
}

TEST_F(RouteTableTest, LearnsAddresses) {
  EXPECT_EQ(routes_.learned(1), std::nullopt);
  routes_.learn(1, {"shm", "a"});
  EXPECT_EQ(routes_.learned(1), (spi::Address{"shm", "a"}));
  routes_.learn(1, {"shm", "b"});
  EXPECT_EQ(routes_.learned(1), (spi::Address{"shm", "b"})) << "the latest counts";
  EXPECT_EQ(find(1), nullptr) << "an address is no route";
}

TEST_F(RouteTableTest, DropsOnlyTheOldestAddressAtItsBound) {
  constexpr ripc_service_id kMost = RouteTable::kMaxLearned;
  for (ripc_service_id id = 1; id <= kMost; ++id) routes_.learn(id, {"shm", "x"});
  EXPECT_NE(routes_.learned(1), std::nullopt);
  routes_.learn(1, {"shm", "y"});  // already known: nothing is evicted
  EXPECT_NE(routes_.learned(2), std::nullopt);
  EXPECT_EQ(routes_.learned(1), (spi::Address{"shm", "y"}));
  routes_.learn(kMost + 1, {"shm", "x"});
  EXPECT_EQ(routes_.learned(1), std::nullopt) << "heard of first";
  for (ripc_service_id id = 2; id <= kMost + 1; ++id)
    ASSERT_TRUE(routes_.learned(id).has_value()) << id << ": one came, one went";
}

TEST_F(RouteTableTest, CanBeReadByManyThreadsWhileItChanges) {
  constexpr ripc_service_id kServices = 200;
  const auto lasting = make_channel();
  routes_.insert(kServices + 1, {.channel = lasting});
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&] {
      ripc_service_id id = 1;
      while (!stop) {
        {
          const ThreadEpoch::Section section(ThreadEpoch::current());
          if (const auto* channel = routes_.find(id); channel != nullptr && (*channel)->packet_limit() != 4096) ++wrong;
          const auto* there = routes_.find(kServices + 1);
          if (there == nullptr || there->get() != lasting.get()) ++wrong;
        }
        id = id % kServices + 1;
      }
    });
  }
  for (int round = 0; round < 40; ++round) {
    std::vector<std::shared_ptr<FakeChannel>> channels;
    for (ripc_service_id id = 1; id <= kServices; ++id) {
      channels.push_back(make_channel());
      routes_.insert(id, {.channel = channels.back()});
    }
    for (const auto& channel : channels) routes_.remove(*channel);
    channels.clear();
    (void)epochs_.reclaim();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(epochs_.reclaim() || epochs_.reclaim());
}

}  // namespace
}  // namespace ripc::internal::core
