// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "core/state/message.hpp"

namespace ripc::internal::core {
namespace {

constexpr std::size_t kPacketLimit = 4096;

// The pool is freed when it is closed and its last message is released.
class Pool {
 public:
  explicit Pool(std::uint32_t max_messages) : pool_(new MessagePool(pools_, kPacketLimit, max_messages)) { enter(); }
  ~Pool() { close(); }
  void enter() { pool_->enter(ThreadEpoch::current()); }
  void close() {
    if (pool_ != nullptr) pool_->close();
    pool_ = nullptr;
  }
  MessagePool* operator->() { return pool_; }

 private:
  MessagePools pools_;
  MessagePool* pool_;
};

TEST(MessagePool, GivesMessagesWithRoomForThePacketAndItsItems) {
  Pool pool(8);
  for (const std::size_t size : {std::size_t{0}, std::size_t{20}, std::size_t{512}, std::size_t{513}, kPacketLimit}) {
    for (const std::size_t items : {0u, 1u, 4u, 5u, 64u}) {
      Message* message = pool->take(size, items);
      ASSERT_NE(message, nullptr);
      EXPECT_GE(message->storage_size, size);
      EXPECT_GE(message->item_capacity, items);
      EXPECT_EQ(message->item_count, 0u);
      EXPECT_EQ(message->in_reply_to, 0u);
      EXPECT_EQ(message->request, 0u);
      EXPECT_EQ(message->attachments, nullptr);
      std::memset(message->storage, 0x5a, message->storage_size);
      for (std::uint32_t i = 0; i < message->item_capacity; ++i) message->items[i] = {};
      message->item_count = 3;
      message->in_reply_to = message->request = 9;
      message->attach(1, 1);
      MessagePool::release(message);
    }
  }
}

TEST(MessagePool, LetsMaxMessagesBeOutAtOnce) {
  Pool pool(3);
  std::vector<Message*> out;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(pool->exhausted());
    out.push_back(pool->take(i == 1 ? kPacketLimit : 10, 1));
    ASSERT_NE(out.back(), nullptr);
  }
  EXPECT_TRUE(pool->exhausted());
  EXPECT_EQ(pool->take(10, 1), nullptr);
  EXPECT_EQ(pool->take(kPacketLimit, 1), nullptr);
  MessagePool::release(out[1]);
  EXPECT_FALSE(pool->exhausted());
  out[1] = pool->take(10, 1);
  EXPECT_NE(out[1], nullptr);
  EXPECT_TRUE(pool->exhausted());
  for (Message* message : out) MessagePool::release(message);
}

TEST(MessagePool, UsesAgainWhatCameBack) {
  Pool pool(64);
  std::set<Message*> different;
  for (int i = 0; i < 100; ++i) {
    Message* first = pool->take(10, 1);
    Message* second = pool->take(kPacketLimit, 1);
    ASSERT_NE(first, second);
    different.insert({first, second});
    MessagePool::release(first);
    MessagePool::release(second);
  }
  EXPECT_EQ(different.size(), 2u) << "no allocation once as many as are needed at a time exist";
}

TEST(MessagePool, CountsWhatAnotherThreadGaveBack) {
  Pool pool(2);
  Message* first = pool->take(10, 1);
  Message* second = pool->take(kPacketLimit, 1);
  ASSERT_TRUE(pool->exhausted());
  std::thread([&] {
    MessagePool::release(first);
    MessagePool::release(second);
  }).join();
  EXPECT_FALSE(pool->exhausted());
  Message* third = pool->take(10, 1);
  EXPECT_EQ(third, first) << "it is used again";
  MessagePool::release(third);
}

TEST(MessagePool, ReleasesTheLeasesOfAMessage) {
  memory::Pool memory(std::uint64_t{64} << 20);
  Pool pool(2);
  Result<std::byte*> lease = memory.lease(5000);
  ASSERT_TRUE(lease.ok());
  Message* message = pool->take(10, 1);
  message->attach(0, 1);
  message->attachments->pool = &memory;
  message->attachments->leases.push_back(*lease);
  MessagePool::release(message);
  EXPECT_FALSE(memory.find(*lease).ok());
}

TEST(MessagePool, KeepsMessagesValidAfterCloseUntilTheyAreReleased) {
  Pool pool(8);
  Message* small = pool->take(10, 1);
  Message* large = pool->take(kPacketLimit, 64);
  Message* returned = pool->take(10, 1);
  MessagePool::release(returned);
  pool.close();
  std::memset(small->storage, 1, small->storage_size);
  std::memset(large->storage, 2, large->storage_size);
  MessagePool::release(small);
  std::thread([&] { MessagePool::release(large); }).join();
}

TEST(MessagePool, CanMoveToAnotherReceivingThread) {
  Pool pool(4);
  Message* before = pool->take(10, 1);
  std::thread([&] {
    pool.enter();
    Message* message = pool->take(10, 1);
    ASSERT_NE(message, nullptr);
    MessagePool::release(before);
    MessagePool::release(message);
    EXPECT_FALSE(pool->exhausted());
  }).join();
  pool.enter();
  std::vector<Message*> all;
  while (Message* message = pool->take(10, 1)) all.push_back(message);
  EXPECT_EQ(all.size(), 4u);
  for (Message* message : all) MessagePool::release(message);
}

TEST(MessagePool, ThreadsThatTakeTurnsCostOneBarrierInAll) {
  Pool pool(4);
  const std::uint64_t before = ThreadEpoch::barriers();
  const auto take_a_turn = [&] {
    pool.enter();
    Message* message = pool->take(10, 1);
    ASSERT_NE(message, nullptr);
    MessagePool::release(message);
  };
  for (int turn = 0; turn < 20; ++turn) {
    std::thread(take_a_turn).join();
    take_a_turn();
  }
  EXPECT_EQ(ThreadEpoch::barriers() - before, 1u);
  pool.enter();
  EXPECT_FALSE(pool->exhausted());
}

TEST(MessagePool, AThreadThatStaysOwnsThePoolAgain) {
  Pool pool(4);
  std::thread([&] { pool.enter(); }).join();
  for (int call = 0; call < 1000; ++call) pool.enter();
  const std::uint64_t before = ThreadEpoch::barriers();
  std::thread([&] { pool.enter(); }).join();
  EXPECT_EQ(ThreadEpoch::barriers() - before, 1u) << "there was no owner to take over from";
}

// Each message carries a number in its storage, so the test, or a race detector, would notice two owners at once.
TEST(MessagePoolThreads, NeverGiveOneMessageTwice) {
  constexpr int kMessages = 20'000, kReleasers = 3;
  Pool pool(64);
  std::vector<std::atomic<Message*>> hand_over(kReleasers);
  std::atomic<bool> done{false}, wrong{false};
  std::vector<std::thread> releasers;
  for (int index = 0; index < kReleasers; ++index) {
    releasers.emplace_back([&, index] {
      auto& box = hand_over[static_cast<std::size_t>(index)];
      for (;;) {
        const bool last = done;
        if (Message* message = box.exchange(nullptr)) {
          int number = 0;
          std::memcpy(&number, message->storage, sizeof number);
          if (static_cast<std::uint32_t>(number) != message->tag) wrong = true;
          MessagePool::release(message);
        } else if (last) {
          return;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (int number = 0; number < kMessages; ++number) {
    Message* message = nullptr;
    while ((message = pool->take(number % 3 == 0 ? 2000 : 20, 1)) == nullptr) std::this_thread::yield();
    std::memcpy(message->storage, &number, sizeof number);
    message->tag = static_cast<std::uint32_t>(number);
    auto& box = hand_over[static_cast<std::size_t>(number % kReleasers)];
    Message* empty = nullptr;
    if (number % 5 == 0 || !box.compare_exchange_strong(empty, message)) MessagePool::release(message);
  }
  done = true;
  for (std::thread& releaser : releasers) releaser.join();
  EXPECT_FALSE(wrong);
  std::vector<Message*> all;
  while (Message* message = pool->take(20, 1)) all.push_back(message);
  EXPECT_EQ(all.size(), 64u) << "everything came back";
  for (Message* message : all) MessagePool::release(message);
}

TEST(MessagePoolThreads, MayReleaseWhileThePoolCloses) {
  for (int round = 0; round < 300; ++round) {
    Pool pool(32);
    std::vector<Message*> messages;
    for (int i = 0; i < 32; ++i) messages.push_back(pool->take(i % 2 == 0 ? 20 : 2000, 1));
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (std::size_t index = 0; index < 2; ++index) {
      threads.emplace_back([&, index] {
        ++ready;
        while (ready < 3) std::this_thread::yield();
        for (std::size_t i = index; i < messages.size(); i += 2) MessagePool::release(messages[i]);
      });
    }
    ++ready;
    while (ready < 3) std::this_thread::yield();
    pool.close();
    for (std::thread& thread : threads) thread.join();
  }
}

// The former receiver releases its messages while another thread becomes the receiver.
TEST(MessagePoolThreads, MayReleaseWhileAnotherThreadBecomesTheReceiver) {
  Pool pool(16);
  for (int round = 0; round < 300; ++round) {
    pool.enter();
    std::vector<Message*> messages;
    while (Message* message = pool->take(20, 1)) messages.push_back(message);
    ASSERT_EQ(messages.size(), 16u);
    std::atomic<int> ready{0};
    std::thread other([&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      pool.enter();
      for (int i = 0; i < 20; ++i) {
        if (Message* message = pool->take(20, 1)) MessagePool::release(message);
      }
    });
    ++ready;
    while (ready < 2) std::this_thread::yield();
    for (Message* message : messages) MessagePool::release(message);
    other.join();
  }
}

TEST(MessagePools, FreeWhatWasNeverGivenBackOfOpenAndOfClosedPools) {
  auto witness = std::make_shared<int>(0);
  {
    MessagePools pools;
    auto* open = new MessagePool(pools, kPacketLimit, 8);
    auto* closed = new MessagePool(pools, kPacketLimit, 8);
    for (MessagePool* pool : {open, closed}) {
      pool->enter(ThreadEpoch::current());
      Message* message = pool->take(100, 1);
      ASSERT_NE(message, nullptr);
      message->attach(0, 0);
      message->attachments->source = std::shared_ptr<spi::Source>(witness, nullptr);
    }
    closed->close();
    EXPECT_EQ(witness.use_count(), 3) << "the application still holds them";
  }
  EXPECT_EQ(witness.use_count(), 1);
}

}  // namespace
}  // namespace ripc::internal::core
