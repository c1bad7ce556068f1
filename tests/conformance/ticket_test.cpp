// SPDX-License-Identifier: Apache-2.0
// Tickets: how a long message ends. ticket_memory_test.cpp tests what that means for the sender's memory.
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "puppet.hpp"
#include "tickets.hpp"

namespace conformance {
namespace {

// What a ticket's callback got.
struct Completion {
  std::atomic<int> runs{0};
  std::atomic<int> status{-1};
  std::thread::id thread;

  static void record(void* user, ripc_status status) {
    auto* self = static_cast<Completion*>(user);
    self->thread = std::this_thread::get_id();
    self->status = status;
    self->runs.fetch_add(1);
  }
  void attach(ripc_send_options& options) {
    options.callback = record;
    options.user = this;
  }
  ripc_status result() const { return static_cast<ripc_status>(status.load()); }
};

class Tickets : public TicketTest {};
CONFORMANCE_SUITE(Tickets);

// ---- Waiting -----------------------------------------------------------------------------------------------------

TEST_P(Tickets, IsPendingUntilThePeerHasTheData) {
  post();
  const Ticket ticket = send_data();
  EXPECT_EQ(ripc_ticket_poll(ticket.get()), RIPC_PENDING);
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), 0), RIPC_PENDING);
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), 5 * kMillisecond), RIPC_PENDING) << "the time given ran out first";
  receive(server_);
  EXPECT_EQ(final_status(ticket), RIPC_OK);
  EXPECT_EQ(ripc_ticket_poll(ticket.get()), RIPC_OK) << "and stays so";
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), 0), RIPC_OK);
}

TEST_P(Tickets, PollAloneFindsTheEnd) {
  post();
  const Ticket ticket = send_data();
  receive(server_);
  EXPECT_TRUE(eventually([&] { return ripc_ticket_poll(ticket.get()) == RIPC_OK; }));
}

TEST_P(Tickets, ABlockedWaitEndsWhenThePeerTakesTheData) {
  post();
  const Ticket ticket = send_data();
  std::jthread receiver([&] { receive(server_); });
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(Tickets, AWaitingThreadUsesNoCpu) {
  const Ticket ticket = send_data();
  const std::uint64_t before = thread_cpu_time();
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), kSecond / 2), RIPC_PENDING);
  EXPECT_LT(thread_cpu_time() - before, 20 * kMillisecond);
}

TEST_P(Tickets, ASignalDoesNotEndAWait) {
  static std::atomic<int> handled{0};
  handled = 0;
  struct sigaction action {};
  struct sigaction previous {};
  action.sa_handler = [](int) { ++handled; };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &previous), 0);
  const Ticket ticket = send_data();
  std::atomic<bool> returned{false};
  std::jthread waiter([&] {
    EXPECT_EQ(final_status(ticket), RIPC_OK);
    returned = true;
  });
  EXPECT_TRUE(eventually([&] {
    if (!returned) pthread_kill(waiter.native_handle(), SIGUSR1);
    return returned || handled >= 20;
  }));
  EXPECT_FALSE(returned) << "no one has taken the data";
  post();
  receive(server_);
  waiter.join();
  sigaction(SIGUSR1, &previous, nullptr);
}

TEST_P(Tickets, AnyThreadMayWaitAndSeveralAtOnce) {
  post();
  const Ticket ticket = send_data();
  std::vector<std::jthread> waiting;
  for (int count = 0; count < 3; ++count) {
    waiting.emplace_back([&] { EXPECT_EQ(final_status(ticket), RIPC_OK); });
  }
  receive(server_);
}

TEST_P(Tickets, ReleasedBeforeTheEndTheMessageGoesOn) {
  post();
  Completion completion;
  ripc_send_options options = send_options();
  completion.attach(options);
  send_data(&options).reset();
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data_));
  EXPECT_TRUE(eventually([&] { return completion.runs == 1; }));
  EXPECT_EQ(completion.result(), RIPC_OK);
}

TEST_P(Tickets, WithoutAPlaceForItTheLibraryKeepsTheTicket) {
  const Bytes large = pattern(1'200'000, 8);  // travels long on every path
  Bytes window(large.size());
  ASSERT_EQ(ripc_window_post(server_.get(), window.data(), window.size(), 0), RIPC_OK);
  ASSERT_EQ(send(client_, server_id(), {item(large, RIPC_ITEM_AUTO)}), RIPC_OK);
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, large));
}

// ---- Callbacks ---------------------------------------------------------------------------------------------------

TEST_P(Tickets, TheCallbackRunsOnceInTheResponderThread) {
  post();
  Completion completion;
  Completion other;
  ripc_send_options options = send_options();
  completion.attach(options);
  const Ticket ticket = send_data(&options);
  receive(server_);
  ASSERT_TRUE(eventually([&] { return completion.runs == 1; }));
  EXPECT_EQ(completion.result(), RIPC_OK);
  EXPECT_NE(completion.thread, std::this_thread::get_id());

  other.attach(options);
  const Ticket second = send_data(&options);
  receive(server_);  // there is no window
  ASSERT_TRUE(eventually([&] { return other.runs == 1; }));
  EXPECT_EQ(other.result(), RIPC_NO_WINDOW);
  EXPECT_EQ(other.thread, completion.thread) << "all callbacks of a context share one thread";

  for (int count = 0; count < 10; ++count) {
    ripc_ticket_poll(ticket.get());
    ripc_ticket_wait(ticket.get(), 0);
    ripc_ticket_cancel(ticket.get());
  }
  EXPECT_EQ(completion.runs, 1);
}

TEST_P(Tickets, TheCallbackRunsWithoutAnyoneWaitingOrHoldingTheTicket) {
  post();
  Completion completion;
  ripc_send_options options = send_options();
  completion.attach(options);
  const ripc_item one = item(data_, RIPC_ITEM_LONG);
  ASSERT_EQ(ripc_send(client_.get(), server_id(), &one, 1, &options, nullptr), RIPC_OK);
  EXPECT_EQ(completion.runs, 0);
  receive(server_);
  EXPECT_TRUE(eventually([&] { return completion.runs == 1; }));
}

TEST_P(Tickets, TheCallbackMaySendPostWindowsAndReleaseHandles) {
  struct Work {
    ripc_service* from;
    ripc_service_id to;
    std::atomic<ripc_ticket*> ticket;
    Bytes window;
    std::atomic<int> sent{-1};
    std::atomic<int> posted{-1};
  } work{client_.get(), server_id(), nullptr, Bytes(100), -1, -1};
  post();
  ripc_send_options options = send_options();
  options.user = &work;
  options.callback = [](void* user, ripc_status) {
    auto* self = static_cast<Work*>(user);
    ripc_ticket_release(self->ticket);
    self->posted = ripc_window_post(self->from, self->window.data(), self->window.size(), 1);
    self->sent = ripc_send(self->from, self->to, nullptr, 0, nullptr, nullptr);
  };
  work.ticket = send_data(&options).release();
  receive(server_);
  EXPECT_EQ(ripc_message_get_item_count(receive(server_).get()), 0u) << "what the callback sent";
  EXPECT_TRUE(eventually([&] { return work.sent != -1; }));
  EXPECT_EQ(work.sent, RIPC_OK);
  EXPECT_EQ(work.posted, RIPC_OK);
}

TEST_P(Tickets, ShortAndFailedSendsRunNoCallback) {
  Completion none;
  ripc_send_options options = send_options();
  none.attach(options);
  const std::string_view text = "short";
  const ripc_item one = item(text);
  ripc_ticket* ticket = nullptr;
  ASSERT_EQ(ripc_send(client_.get(), server_id(), &one, 1, &options, &ticket), RIPC_OK);
  EXPECT_EQ(ticket, nullptr);
  const ripc_item lent = item(data_, RIPC_ITEM_LONG);
  EXPECT_EQ(ripc_send(client_.get(), 987654321, &lent, 1, &options, &ticket), RIPC_NO_SERVICE);
  EXPECT_EQ(ticket, nullptr);
  // The callbacks of one context run one after the other.
  Completion last;
  last.attach(options);
  receive(server_);
  post();
  ASSERT_EQ(ripc_send(client_.get(), server_id(), &lent, 1, &options, nullptr), RIPC_OK);
  receive(server_);
  EXPECT_TRUE(eventually([&] { return last.runs == 1; }));
  EXPECT_EQ(none.runs, 0);
}

TEST_P(Tickets, EachOfManyCallbacksRunsOnce) {
  constexpr std::size_t kCount = 60;
  std::vector<Completion> completions(kCount);
  std::vector<Ticket> tickets;
  for (Completion& completion : completions) {
    ripc_send_options options = send_options();
    completion.attach(options);
    tickets.push_back(send_data(&options));
  }
  for (std::size_t index = 0; index < kCount; ++index) {
    if (index % 3 == 0) post();
    if (index % 3 == 1) {
      EXPECT_EQ(ripc_ticket_cancel(tickets[index].get()), RIPC_CANCELLED);
    } else {
      receive(server_);
    }
  }
  for (std::size_t index = 0; index < kCount; ++index) {
    ASSERT_TRUE(eventually([&] { return completions[index].runs > 0; })) << index;
    EXPECT_EQ(completions[index].result(), index % 3 == 0   ? RIPC_OK
                                           : index % 3 == 1 ? RIPC_CANCELLED
                                                            : RIPC_NO_WINDOW)
        << index;
    EXPECT_EQ(completions[index].result(), ripc_ticket_poll(tickets[index].get()));
  }
  tickets.clear();
  client_.reset();
  client_context_.reset();
  for (const Completion& completion : completions) EXPECT_EQ(completion.runs, 1);
}

TEST_P(Tickets, DestroyingTheContextEndsTicketsAndTellsTheirCallbacks) {
  Completion completion;
  ripc_send_options options = send_options();
  completion.attach(options);
  const ripc_item one = item(data_, RIPC_ITEM_LONG);
  ASSERT_EQ(ripc_send(client_.get(), server_id(), &one, 1, &options, nullptr), RIPC_OK);
  static_cast<void>(client_.release());  // the context destroys it
  client_context_.reset();
  EXPECT_EQ(completion.runs, 1);
  EXPECT_EQ(completion.result(), RIPC_CLOSED);
}

// ---- Cancel and time-out -----------------------------------------------------------------------------------------

TEST_P(Tickets, CancelWithdrawsWhatWasNotTaken) {
  post();
  const Ticket ticket = send_data();
  EXPECT_EQ(ripc_ticket_cancel(ticket.get()), RIPC_CANCELLED);
  EXPECT_EQ(ripc_ticket_poll(ticket.get()), RIPC_CANCELLED);
  expect_nothing_more(server_);
  const Ticket next = send_data();
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data_)) << "the window was not used up";
  EXPECT_EQ(final_status(next), RIPC_OK);
}

TEST_P(Tickets, CancelAfterTheEndReturnsTheFinalStatus) {
  post();
  const Ticket ticket = send_data();
  receive(server_);
  EXPECT_EQ(final_status(ticket), RIPC_OK);
  EXPECT_EQ(ripc_ticket_cancel(ticket.get()), RIPC_OK);
}

TEST_P(Tickets, ACancelledMessageArrivesInNoPart) {
  const std::string_view text = "short";
  post();
  const Ticket ticket = send_long(client_, server_id(), {item(text, RIPC_ITEM_SHORT), item(data_, RIPC_ITEM_LONG)});
  EXPECT_EQ(ripc_ticket_cancel(ticket.get()), RIPC_CANCELLED);
  expect_nothing_more(server_);
}

TEST_P(Tickets, TheTimeGivenRunsOut) {
  Completion completion;
  ripc_send_options options = send_options();
  options.timeout = 20 * kMillisecond;
  completion.attach(options);
  const Ticket ticket = send_data(&options);
  EXPECT_EQ(final_status(ticket), RIPC_TIMEOUT);
  EXPECT_TRUE(eventually([&] { return completion.runs == 1; })) << "also without anyone waiting";
  EXPECT_EQ(completion.result(), RIPC_TIMEOUT);
  post();
  expect_nothing_more(server_);
}

TEST_P(Tickets, WithoutTimeAMessageIsDroppedThatNoOneTakesAtOnce) {
  ripc_send_options options = send_options();
  options.timeout = 0;
  const Ticket ticket = send_data(&options);
  EXPECT_EQ(final_status(ticket), RIPC_TIMEOUT);
  post();
  expect_nothing_more(server_);
}

TEST_P(Tickets, TheDefaultIsThirtySecondsAndForeverIsAllowed) {
  if (std::getenv("RIPC_TEST_SLOW") == nullptr) GTEST_SKIP() << "takes 30 s: set RIPC_TEST_SLOW=1";
  ripc_send_options options = send_options();
  const std::uint64_t start = now();
  const Ticket usual = send_data(&options);
  options.timeout = RIPC_FOREVER;
  const Ticket forever = send_data(&options);
  EXPECT_EQ(ripc_ticket_wait(usual.get(), 45 * kSecond), RIPC_TIMEOUT);
  EXPECT_GE(now() - start, 29 * kSecond);
  EXPECT_EQ(ripc_ticket_poll(forever.get()), RIPC_PENDING);
}

TEST_P(Tickets, ATicketThatLastsForeverEndsWell) {
  post();
  ripc_send_options options = send_options();
  options.timeout = RIPC_FOREVER;
  const Ticket ticket = send_data(&options);
  receive(server_);
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), RIPC_FOREVER), RIPC_OK);
}

// ---- The reasons -------------------------------------------------------------------------------------------------

TEST_P(Tickets, NoWindowAndTooSmallAreDistinguished) {
  const Ticket none = send_data();
  receive(server_);
  EXPECT_EQ(final_status(none), RIPC_NO_WINDOW);
  Bytes small(10);
  ASSERT_EQ(ripc_window_post(server_.get(), small.data(), small.size(), 1), RIPC_OK);
  const Ticket too_small = send_data();
  receive(server_);
  EXPECT_EQ(final_status(too_small), RIPC_WINDOW_TOO_SMALL);
}

TEST_P(Tickets, APeerKilledBeforeItTookTheDataIsPeerDead) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  Completion completion;
  ripc_send_options options = send_options();
  completion.attach(options);
  const Ticket ticket = send_long(client_, 77, {item(data_, RIPC_ITEM_LONG)}, &options);
  EXPECT_EQ(ripc_ticket_poll(ticket.get()), RIPC_PENDING);
  puppet.kill();
  EXPECT_EQ(final_status(ticket), RIPC_PEER_DEAD);
  EXPECT_TRUE(eventually([&] { return completion.runs == 1; }));
  EXPECT_EQ(completion.result(), RIPC_PEER_DEAD);
}

TEST_P(Tickets, APeerThatClosesBeforeItTookTheDataIsPeerDead) {
  const Ticket ticket = send_data();
  server_.reset();
  EXPECT_EQ(final_status(ticket), RIPC_PEER_DEAD);
  server_ = make_service(server_context_);
  const Ticket second = send_data();
  static_cast<void>(server_.release());  // the context destroys it
  server_context_.reset();
  EXPECT_EQ(final_status(second), RIPC_PEER_DEAD);
}

TEST_P(Tickets, APeerThatClosesInTheMidstOfATransferIsPeerDead) {
  data_ = pattern(64 << 20, 2);
  window_.resize(data_.size());
  post();
  const Ticket ticket = send_data();
  // A window that cannot be withdrawn is in use.
  bool is_pulling = false;
  ASSERT_TRUE(eventually([&] {
    ripc_message* message = nullptr;
    if (ripc_receive(server_.get(), 0, 0, &message) == RIPC_OK) {
      ripc_message_release(message);
      return true;
    }
    std::size_t count = 0;
    EXPECT_EQ(ripc_window_withdraw(server_.get(), 1, &count), RIPC_OK);
    is_pulling = count == 0;
    if (!is_pulling) post();
    return is_pulling;
  }));
  if (!is_pulling) GTEST_SKIP() << "one receive takes it all";
  server_.reset();
  EXPECT_EQ(final_status(ticket), RIPC_PEER_DEAD);
}

TEST_P(Tickets, APeerKilledAfterItTookTheDataIsOk) {
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(77), "RIPC_OK");
  ASSERT_EQ(puppet.call("post 100000 1"), "RIPC_OK");
  const Ticket ticket = send_long(client_, 77, {item(data_, RIPC_ITEM_LONG)});
  ASSERT_EQ(puppet.status_of("receive"), "RIPC_OK");
  puppet.kill();
  EXPECT_EQ(final_status(ticket), RIPC_OK);
}

TEST_P(Tickets, ASenderKilledUnderWayLeavesTheReceiverWell) {
  for (const char* memory : {"pool", "foreign"}) {
    Puppet sender(peer_setup());
    ASSERT_EQ(sender.register_id(78), "RIPC_OK");
    ASSERT_EQ(sender.call("send_long " + std::to_string(server_id()) + " 100000 1 " + memory + " 0"), "RIPC_OK");
    sender.kill();
    post();
    ripc_message* handle = nullptr;
    // The message may be lost with its sender or arrive, whole or with the item marked as failed.
    if (ripc_receive(server_.get(), 0, 100 * kMillisecond, &handle) == RIPC_OK) {
      const Message message(handle);
      const ripc_item_view view = view_of(message, 0);
      if (view.status == RIPC_OK) {
        EXPECT_TRUE(holds(view, RIPC_VIEW_WINDOW, data_));
      } else {
        EXPECT_EQ(view.kind, RIPC_VIEW_FAILED);
      }
    }
    ripc_window_withdraw(server_.get(), 1, nullptr);
    ASSERT_EQ(send_text(client_, server_id(), "still well"), RIPC_OK);
    EXPECT_EQ(text_of(receive(server_)), "still well");
  }
}

}  // namespace
}  // namespace conformance
