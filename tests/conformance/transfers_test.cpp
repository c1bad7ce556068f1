// SPDX-License-Identifier: Apache-2.0
// Long messages that are under way: how many there may be, and how a sender waits for room.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "long_pair.hpp"
#include "support/process_state.hpp"

namespace conformance {
namespace {

class Transfers : public LongPairTest {
 protected:
  // Its queue has room for more messages than may be under way.
  Service make_roomy(std::uint32_t messages = 16384) {
    return make_service(server_context_, [&](ripc_service_options& options) { options.queue_messages = messages; });
  }
  // Thousands of messages take a while on a slow machine.
  static ripc_send_options patient_options() {
    ripc_send_options options = send_options();
    options.timeout = 10 * kLimit;
    return options;
  }

  const Bytes data_ = pattern(3000, 5);
  const ripc_item one_ = item(data_, RIPC_ITEM_LONG);
};
CONFORMANCE_SUITE(Transfers);

TEST_P(Transfers, ManyTransfersMayBeUnderWay) {
  constexpr unsigned kCount = 100;
  std::vector<Bytes> data;
  std::vector<Ticket> tickets;
  for (unsigned index = 0; index < kCount; ++index) {
    data.push_back(pattern(5000, index));
    tickets.push_back(send_long(client_, server_id(), {item(data[index], RIPC_ITEM_LONG)}));
    EXPECT_EQ(ripc_ticket_poll(tickets[index].get()), RIPC_PENDING);
  }
  for (unsigned index = 0; index < kCount; ++index) {
    Bytes window(5000);
    post(window);
    EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data[index])) << index;
    EXPECT_EQ(final_status(tickets[index]), RIPC_OK);
  }
}

// Two threads send long messages to each other. They wait for the next message, or first for the ticket.
TEST_P(Transfers, TheWaitingThreadMovesTheBytesItself) {
  if (!traits().moves_in_wait) GTEST_SKIP() << "the responder handles the completions of " << GetParam();
  constexpr std::uint64_t kRounds = 10;
  const auto play = [&](const Service& service, ripc_service_id other, bool begins, std::atomic<pid_t>& thread) {
    thread = gettid();
    const Bytes data = pattern(20'000, 1);
    Bytes window(data.size());
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      ASSERT_EQ(ripc_window_post(service.get(), window.data(), window.size(), 0), RIPC_OK);
      if (begins) {
        const Ticket ticket = send_long(service, other, {item(data, RIPC_ITEM_LONG)});
        if (round % 2 == 0) {
          ASSERT_EQ(final_status(ticket), RIPC_OK);
        }
        ASSERT_TRUE(holds(view_of(receive(service), 0), RIPC_VIEW_WINDOW, data));
      } else {
        ASSERT_TRUE(holds(view_of(receive(service), 0), RIPC_VIEW_WINDOW, data));
        const Ticket ticket = send_long(service, other, {item(data, RIPC_ITEM_LONG)});
        ASSERT_EQ(final_status(ticket), RIPC_OK);
      }
    }
  };
  // Connects.
  ASSERT_EQ(send_text(client_, server_id(), "there"), RIPC_OK);
  ASSERT_EQ(send_text(server_, client_id(), "back"), RIPC_OK);
  receive(client_);
  receive(server_);
  // A thread that is between two waits, or has lost its processor, leaves the bytes to the responder, so the best of
  // many short tries counts. If no waiting thread moved them, responders would sleep eight times in each round.
  std::uint64_t sleeps = UINT64_MAX;
  EXPECT_TRUE(eventually([&] {
    std::atomic<pid_t> here{0}, there{0};
    const std::uint64_t before = support::sleeps_of_threads_but({gettid()});
    std::jthread other([&] { play(server_, client_id(), false, there); });
    play(client_, server_id(), true, here);
    const std::uint64_t after = support::sleeps_of_threads_but({here, there});
    sleeps = std::min(sleeps, after - before);
    return sleeps < kRounds || HasFailure();
  })) << "responders slept "
      << sleeps << " times";
}

TEST_P(Transfers, TooManyTransfersUnderWayAreAgainAndTheRoomComesBack) {
  const Service roomy = make_roomy();
  const ripc_send_options patient = patient_options();
  std::vector<Ticket> tickets;
  send_until_full(client_, id_of(roomy), one_, tickets, &patient);
  EXPECT_GE(tickets.size(), 128u);
  EXPECT_EQ(ripc_wait_room(client_.get(), id_of(roomy), 20 * kMillisecond), RIPC_TIMEOUT);
  // On other transports, a receiver may give room back in larger pieces.
  const std::uint64_t patience = traits().exact_queue ? kLimit : kMillisecond;
  std::size_t received = 0;
  ripc_status status = RIPC_OK;
  do {
    receive(roomy, RIPC_RECEIVE_LEND);
    ++received;
    status = ripc_wait_room(client_.get(), id_of(roomy), patience);
  } while (status == RIPC_TIMEOUT && received < tickets.size());
  ASSERT_EQ(status, RIPC_OK);
  if (traits().exact_queue) {
    EXPECT_EQ(received, 1u);
  }
  tickets.push_back(send_long(client_, id_of(roomy), {one_}, &patient));
  for (; received < tickets.size(); ++received) {
    ASSERT_TRUE(holds(view_of(receive(roomy, RIPC_RECEIVE_LEND), 0), RIPC_VIEW_LENT, data_));
  }
  for (const Ticket& ticket : tickets) ASSERT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(Transfers, TheDescriptorNotifiesASenderWhoseTransfersWereAllUnderWay) {
  const Service roomy = make_roomy();
  const ripc_send_options patient = patient_options();
  int fd = -1;
  ASSERT_EQ(ripc_service_get_fd(client_.get(), &fd), RIPC_OK);
  const auto readable = [&](std::uint64_t patience) {
    pollfd descriptor{fd, POLLIN, 0};
    return ::poll(&descriptor, 1, static_cast<int>(patience / kMillisecond)) == 1;
  };
  std::vector<Ticket> tickets;
  const auto fill = [&] { send_until_full(client_, id_of(roomy), one_, tickets, &patient); };
  const auto quiet = [&] {
    ripc_message* message = nullptr;
    EXPECT_EQ(ripc_receive(client_.get(), 0, 0, &message), RIPC_EMPTY);
  };
  fill();
  quiet();
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(ripc_request_room_event(client_.get(), id_of(roomy)), RIPC_OK);
    if (traits().exact_queue) {
      EXPECT_FALSE(readable(20 * kMillisecond)) << "nothing has ended";
    }
    std::size_t received = 0;
    do {
      receive(roomy, RIPC_RECEIVE_LEND);
      ++received;
    } while (!readable(traits().exact_queue ? kLimit : kMillisecond) && received < tickets.size());
    quiet();
    const std::size_t before = tickets.size();
    fill();
    EXPECT_GT(tickets.size(), before);
    quiet();
  }
  // Transfers that are still under way read the bytes until they are withdrawn.
  for (const Ticket& ticket : tickets) EXPECT_NE(ripc_ticket_cancel(ticket.get()), RIPC_PENDING);
}

TEST_P(Transfers, ShortMessagesDoNotWaitForTransfersOfAnotherThread) {
  const Service roomy = make_roomy(1024);
  std::vector<Ticket> tickets;
  const auto fill_with_long_ones = [&] { send_until_full(client_, id_of(roomy), one_, tickets); };
  fill_with_long_ones();
  const std::size_t sent = send_until_full([&] { return send(client_, id_of(roomy), {}); });
  std::jthread(fill_with_long_ones).join();
  std::jthread receiver([&] {
    // Long messages stay with the receiver.
    std::vector<Message> kept;
    for (std::size_t count = 0; count < tickets.size() + sent; ++count)
      kept.push_back(receive(roomy, RIPC_RECEIVE_LEND));
    EXPECT_EQ(text_of(receive(roomy)), "short");
  });
  ASSERT_EQ(ripc_wait_room(client_.get(), id_of(roomy), kLimit), RIPC_OK);
  EXPECT_EQ(send_text(client_, id_of(roomy), "short"), RIPC_OK);
}

}  // namespace
}  // namespace conformance
