// SPDX-License-Identifier: Apache-2.0
// A receiver that has no room: what its senders learn, and how they wait.
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "puppet.hpp"

namespace conformance {
namespace {

class FullQueue : public PairTest {
 protected:
  void SetUp() override {
    PairTest::SetUp();
    small_ = make_service(server_context_, [](ripc_service_options& options) {
      options.queue_messages = 16;
      options.queue_bytes = 4096;
    });
  }

  // Sends numbered messages until there is no room; returns how many were accepted.
  std::uint32_t fill(std::size_t size = 8) {
    const Bytes data = pattern(size, 1);
    std::uint32_t tag = 0;
    return static_cast<std::uint32_t>(
        send_until_full([&] { return send(client_, id_of(small_), {item(data, RIPC_ITEM_SHORT)}, tag++); }));
  }
  void drain(std::uint32_t count, std::uint32_t first = 0) {
    for (std::uint32_t index = first; index < first + count; ++index) {
      ASSERT_EQ(ripc_message_get_tag(receive(small_).get()), index);
    }
  }

  Service small_;
};
CONFORMANCE_SUITE(FullQueue);

TEST_P(FullQueue, AFullPeerIsAgainAndEveryAcceptedMessageArrivesInOrder) {
  const std::uint32_t sent = fill();
  EXPECT_GE(sent, 16u);
  if (traits().exact_queue) {
    EXPECT_EQ(sent, 16u);
  }
  EXPECT_EQ(send(client_, id_of(small_), {}), RIPC_AGAIN) << "and stays so";
  EXPECT_GE(statistics_of(client_).again, 2u);
  drain(sent);
  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(small_.get(), 0, 0, &message), RIPC_EMPTY) << "a refused message was not sent";
}

TEST_P(FullQueue, HoldsByDefault128MessagesOfASender) {
  if (!traits().exact_queue) GTEST_SKIP() << "on the way to its queue, messages have room with this transport";
  EXPECT_EQ(send_until_full([&] { return send(client_, server_id(), {}); }), 128u);
}

TEST_P(FullQueue, LargeMessagesFillTheQueue) {
  const std::uint32_t sent = fill(1000);
  EXPECT_GE(sent, 1u);
  drain(sent);
  EXPECT_GE(fill(1000), sent) << "the room comes back";
}

TEST_P(FullQueue, OneSendersFullQueueDoesNotStopAnother) {
  fill();
  const Context other = make_context();
  const Service sender = make_service(other);
  EXPECT_EQ(send_text(sender, id_of(small_), "hello"), RIPC_OK);
}

TEST_P(FullQueue, AFullQueueDoesNotStopOtherServices) {
  fill();
  ASSERT_EQ(send_text(client_, server_id(), "hello"), RIPC_OK);
  EXPECT_EQ(text_of(receive(server_)), "hello");
}

TEST_P(FullQueue, WaitRoomRunsOutOfTimeWhileItIsFull) {
  fill();
  EXPECT_EQ(ripc_wait_room(client_.get(), id_of(small_), 0), RIPC_TIMEOUT);
  EXPECT_EQ(ripc_wait_room(client_.get(), id_of(small_), 20 * kMillisecond), RIPC_TIMEOUT);
}

TEST_P(FullQueue, AThreadThatWaitsForRoomUsesNoCpu) {
  fill();
  const std::uint64_t before = thread_cpu_time();
  rusage first{}, last{};
  getrusage(RUSAGE_THREAD, &first);
  EXPECT_EQ(ripc_wait_room(client_.get(), id_of(small_), kSecond / 2), RIPC_TIMEOUT);
  getrusage(RUSAGE_THREAD, &last);
  EXPECT_LT(thread_cpu_time() - before, 20 * kMillisecond);
  EXPECT_LE(last.ru_nvcsw - first.ru_nvcsw, 5) << "it woke up although nothing happened";
}

TEST_P(FullQueue, WaitRoomReturnsWhenTheReceiverDrains) {
  for (int round = 0; round < 20; ++round) {
    const std::uint32_t sent = fill();
    std::jthread receiver([&] { drain(sent); });
    EXPECT_EQ(ripc_wait_room(client_.get(), id_of(small_), kLimit), RIPC_OK);
    EXPECT_TRUE(eventually([&] { return send(client_, id_of(small_), {}, sent) == RIPC_OK; }));
    receiver.join();
    drain(1, sent);
  }
}

TEST_P(FullQueue, WaitRoomSearchesForAPathWithAnyTimeoutButZero) {
  EXPECT_EQ(ripc_wait_room(client_.get(), 4'711, 0), RIPC_OK);
  EXPECT_EQ(ripc_wait_room(client_.get(), 4'711, 1), RIPC_NO_SERVICE);
}

TEST_P(FullQueue, WaitRoomReturnsAtOnceIfThereIsRoom) {
  EXPECT_EQ(ripc_wait_room(client_.get(), id_of(small_), 0), RIPC_OK);
  const std::uint32_t sent = fill();
  drain(sent);
  EXPECT_EQ(ripc_wait_room(client_.get(), id_of(small_), kLimit), RIPC_OK);
}

TEST_P(FullQueue, WaitRoomIsInterruptible) {
  fill();
  ASSERT_EQ(ripc_interrupt(client_.get()), RIPC_OK);
  EXPECT_EQ(ripc_wait_room(client_.get(), id_of(small_), kLimit), RIPC_INTERRUPTED);
}

TEST_P(FullQueue, ASignalHandlerMayInterruptWaitRoom) {
  fill();
  static std::atomic<ripc_service*> waiting;
  waiting = client_.get();
  struct sigaction action {};
  struct sigaction previous {};
  action.sa_handler = [](int) { ripc_interrupt(waiting); };
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &previous), 0);
  for (int round = 0; round < 20; ++round) {
    std::jthread waiter([&] { EXPECT_EQ(ripc_wait_room(client_.get(), id_of(small_), kLimit), RIPC_INTERRUPTED); });
    ASSERT_EQ(raise(SIGUSR1), 0);  // in another thread than the one that waits
  }
  sigaction(SIGUSR1, &previous, nullptr);
}

TEST_P(FullQueue, ASignalEndsWaitRoom) {
  fill();
  expect_signal_ends([&] { return ripc_wait_room(client_.get(), id_of(small_), kLimit); });
}

TEST_P(FullQueue, WaitRoomInACallbackIsInterruptible) {
  fill();
  struct Call {
    ripc_service* service;
    ripc_service_id to;
    std::atomic<bool> begun{false};
    std::atomic<int> status{-1};
  } call{client_.get(), id_of(small_)};
  ripc_notification notification{};
  const auto wait = [](void* user, ripc_service_id, const ripc_item_view*, std::size_t) {
    auto* const self = static_cast<Call*>(user);
    self->begun = true;
    self->status = ripc_wait_room(self->service, self->to, kLimit);
  };
  ASSERT_EQ(ripc_notification_register(client_.get(), wait, &call, &notification), RIPC_OK) << ripc_last_error();
  ASSERT_EQ(ripc_notify(server_.get(), &notification, nullptr, 0), RIPC_OK) << ripc_last_error();
  ASSERT_TRUE(eventually([&] { return call.begun.load(); }));
  ASSERT_EQ(ripc_interrupt(client_.get()), RIPC_OK);
  EXPECT_TRUE(eventually([&] { return call.status == RIPC_INTERRUPTED; }));
  EXPECT_EQ(ripc_notification_unregister(client_.get(), &notification), RIPC_OK);
}

TEST_P(FullQueue, WaitRoomGoesOnWithTheServicesNewHolder) {
  constexpr ripc_service_id kContested = 77;
  const Service former = make_service(server_context_, [](ripc_service_options& options) { options.id = kContested; });
  ASSERT_TRUE(eventually([&] { return send(client_, kContested, {}) == RIPC_AGAIN; }));
  std::jthread waiter([&] { EXPECT_EQ(ripc_wait_room(client_.get(), kContested, kLimit), RIPC_OK); });
  const Context context = make_context();
  const Service successor = make_service(context, [&](ripc_service_options& options) {
    options.id = kContested;
    options.takeover = 1;
  });
  waiter.join();
  EXPECT_EQ(send_text(client_, kContested, "hello"), RIPC_OK);
  EXPECT_EQ(text_of(receive(successor)), "hello");
}

TEST_P(FullQueue, WaitRoomEndsWhenThePeerDies) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  ASSERT_TRUE(eventually([&] { return send(client_, 77, {}) == RIPC_AGAIN; }));
  std::jthread killer([&] { puppet.kill(); });
  const ripc_status status = ripc_wait_room(client_.get(), 77, kLimit);
  killer.join();
  EXPECT_TRUE(status == RIPC_PEER_DEAD || status == RIPC_NO_SERVICE) << ripc_status_name(status);
}

TEST_P(FullQueue, AskingForRoomWithoutWaitingDoesNotLookForAGonePeer) {
  const ripc_service_id gone = id_of(small_);
  fill();
  small_.reset();
  ASSERT_TRUE(eventually([&] { return ripc_wait_room(client_.get(), gone, 0) == RIPC_OK; }));
  const std::uint64_t resolutions = statistics_of(client_).resolutions;
  EXPECT_EQ(ripc_wait_room(client_.get(), gone, 0), RIPC_OK) << "the send tells";
  EXPECT_EQ(ripc_request_room_event(client_.get(), gone), RIPC_OK);
  EXPECT_EQ(statistics_of(client_).resolutions, resolutions);
  EXPECT_TRUE(is_gone(client_, gone));
}

TEST_P(FullQueue, AStoppedPeerIsAgainNotAHang) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  ASSERT_EQ(send(client_, 77, {}), RIPC_OK);
  puppet.signal(SIGSTOP);
  send_until_full([&] { return send(client_, 77, {}); });
  puppet.signal(SIGCONT);
  EXPECT_EQ(puppet.status_of("receive"), "RIPC_OK");
}

}  // namespace
}  // namespace conformance
