// SPDX-License-Identifier: Apache-2.0
// The small parts of a service: its life, its counters of what it sent, and the inbox that receive() hands out from.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <thread>
#include <vector>

#include "core/receive/inbox.hpp"
#include "core/send/send_counters.hpp"
#include "core/state/service_life.hpp"

namespace ripc::internal::core {
namespace {

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}

TEST(ServiceLife, IsFencedOnceAndClosedForEver) {
  ServiceLife life(EventSet::create().value());
  EXPECT_EQ(life.status(), RIPC_OK);
  EXPECT_TRUE(life.fence());
  EXPECT_FALSE(life.fence());
  EXPECT_EQ(life.status(), RIPC_FENCED);
  EXPECT_TRUE(life.close()) << "it was fenced";
  EXPECT_FALSE(life.close());
  EXPECT_FALSE(life.fence());
  EXPECT_EQ(life.status(), RIPC_CLOSED);
}

TEST(ServiceLife, AnInterruptWakesAndIsTakenOnce) {
  ServiceLife life(EventSet::create().value());
  const int fd = life.use_fd();
  EXPECT_FALSE(is_readable(fd));
  life.interrupt();
  EXPECT_TRUE(is_readable(fd));
  EXPECT_TRUE(life.take_interrupt());
  EXPECT_FALSE(life.take_interrupt());
}

TEST(ServiceLife, AnInterruptByASignalHandlerWakesTheThreadThatLooksItself) {
  ServiceLife life(EventSet::create().value());
  life.events().set_looker(std::this_thread::get_id());
  life.events().wake();
  EXPECT_EQ(life.events().sleep(Deadline::after(0), monotonic_now()), RIPC_TIMEOUT);
  life.interrupt();
  EXPECT_EQ(life.events().sleep(Deadline::after(0), monotonic_now()), RIPC_OK);
}

TEST(SendCounters, CountWhatSeveralThreadsSend) {
  SendCounters counters;
  constexpr int kMessages = 1000;
  const auto send = [&](std::size_t bytes) {
    for (int sent = 0; sent < kMessages; ++sent) counters.count_plain(ThreadEpoch::current(), bytes);
  };
  send(3);
  std::vector<std::thread> threads;
  for (const std::size_t bytes : {0u, 5u}) threads.emplace_back(send, bytes);
  for (std::thread& thread : threads) thread.join();
  ripc_service_statistics statistics{};
  counters.add_to(statistics);
  EXPECT_EQ(statistics.messages_sent, 3u * kMessages);
  EXPECT_EQ(statistics.short_bytes_sent, 8u * kMessages);
  EXPECT_EQ(statistics.payload_copies, 2u * kMessages) << "an empty message copies nothing";
}

TEST(SendCounters, CountARefusalAndHandItOn) {
  SendCounters counters;
  EXPECT_EQ(counters.count_again(RIPC_AGAIN), RIPC_AGAIN);
  EXPECT_EQ(counters.count_again(RIPC_PEER_DEAD), RIPC_PEER_DEAD);
  EXPECT_EQ(value(counters.again), 1u);
}

TEST(Inbox, KeepsTheOrderOfWhatDoesNotFit) {
  MessagePools pools;
  auto* pool = new MessagePool(pools, 512, 16);
  pool->enter(ThreadEpoch::current());
  std::array<Message*, 2> output{};
  std::vector<Message*> given;
  {
    Inbox inbox;
    inbox.open(output);
    for (std::uint32_t tag = 0; tag < 5; ++tag) {
      Message* message = pool->take(8, 1);
      ASSERT_NE(message, nullptr);
      message->tag = tag;
      inbox.add(message);
      EXPECT_EQ(inbox.is_full(), tag >= 1);
    }
    EXPECT_TRUE(inbox.pending);
    given.insert(given.end(), output.begin(), output.end());
    inbox.open(output);
    EXPECT_TRUE(inbox.give_waiting()) << "the last one does not fit";
    EXPECT_EQ(inbox.count(), 2u);
    given.insert(given.end(), output.begin(), output.end());
    for (std::uint32_t tag = 0; tag < given.size(); ++tag) EXPECT_EQ(given[tag]->tag, tag);
    for (Message* message : given) MessagePool::release(message);
  }
  EXPECT_TRUE(pool->is_roomy()) << "the inbox gave the last one back";
  pool->close();
}

}  // namespace
}  // namespace ripc::internal::core
