// SPDX-License-Identifier: Apache-2.0
#include "core/state/ticket.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "fake_transport.hpp"
#include "support/process_state.hpp"
#include "support/waiting.hpp"
#include "unit/base/eventfd_helpers.hpp"

namespace ripc::internal::core {
namespace {

using support::eventually;

using State = FakeChannel::State;

constexpr Nanoseconds kTicketPatience = 30'000'000'000;
constexpr Nanoseconds kSpin = 10'000;

struct Outcome {
  std::atomic<int> calls{0};
  std::atomic<int> status{-1};
  static void note(void* user, ripc_status status) {
    auto& outcome = *static_cast<Outcome*>(user);
    outcome.status = status;
    ++outcome.calls;
  }
};

class TicketTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<EventLoop>> made = EventLoop::create();
    ASSERT_TRUE(made.ok());
    loop_ = std::move(made).value();
    keeper_ = std::make_unique<TicketKeeper>(*loop_);
    thread_ = std::thread([this] { loop_->run(); });
  }
  void TearDown() override {
    keeper_->shut_down();
    loop_->stop();
    thread_.join();
    keeper_.reset();
    EXPECT_EQ(channel_->misuses(), 0) << "a transfer was named after its end";
  }

  std::shared_ptr<Ticket> open(std::uint64_t transfer, Nanoseconds deadline = UINT64_MAX, Outcome* outcome = nullptr,
                               std::shared_ptr<TicketSender> sender = nullptr) {
    Ticket::Parts parts;
    parts.channel = channel_;
    parts.transfer = transfer;
    parts.sender = sender ? std::move(sender) : sender_;
    parts.deadline = deadline;
    if (outcome != nullptr) parts.callback = Outcome::note;
    parts.user = outcome;
    return keeper_->open(keeper_->prepare(std::move(parts)), {}, {});
  }
  // A ticket that holds a lease of the pool.
  std::shared_ptr<Ticket> open_with_lease(std::uint64_t transfer) {
    lease_ = *pool_.lease(5000);
    Ticket::Parts parts;
    parts.channel = channel_;
    parts.transfer = transfer;
    parts.sender = sender_;
    std::vector<memory::Hold> holds;
    holds.push_back(std::move(pool_.hold(lease_, 5000)).value());
    EXPECT_TRUE(pool_.release(lease_).ok());
    return keeper_->open(keeper_->prepare(std::move(parts)), std::move(holds), {{lease_, 5000}});
  }
  bool memory_is_held() {
    ripc_pool_statistics statistics{};
    pool_.fill_statistics(statistics);
    return statistics.leased != 0;
  }
  static ripc_status wait(Ticket& ticket) { return ticket.wait(Deadline::after(kTicketPatience), kSpin); }

  memory::Pool pool_{std::uint64_t{128} << 20};
  std::byte* lease_ = nullptr;
  std::shared_ptr<TicketSender> sender_ = std::make_shared<TicketSender>();
  std::shared_ptr<FakeChannel> channel_ = std::make_shared<FakeChannel>();
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<TicketKeeper> keeper_;
  std::thread thread_;
};

TEST_F(TicketTest, IsPendingUntilThePeerFinishes) {
  const std::uint64_t transfer = channel_->make_transfer();
  const auto ticket = open(transfer);
  EXPECT_EQ(ticket->poll(), RIPC_PENDING);
  EXPECT_EQ(ticket->wait(Deadline::after(0), 0), RIPC_PENDING);
  channel_->finish(transfer, RIPC_NO_WINDOW);
  EXPECT_EQ(ticket->poll(), RIPC_NO_WINDOW);
  EXPECT_EQ(ticket->poll(), RIPC_NO_WINDOW) << "it stays final";
  EXPECT_EQ(ticket->cancel(), RIPC_NO_WINDOW);
  EXPECT_EQ(wait(*ticket), RIPC_NO_WINDOW);
}

TEST_F(TicketTest, ThatHasEndedHoldsNoPathThoughItsHandleLives) {
  const std::uint64_t transfer = channel_->make_transfer();
  const long before = channel_.use_count();
  const auto ticket = open(transfer);
  EXPECT_EQ(channel_.use_count(), before + 1);
  channel_->finish(transfer, RIPC_OK);
  EXPECT_EQ(ticket->poll(), RIPC_OK);
  EXPECT_EQ(channel_.use_count(), before);
  EXPECT_EQ(ticket->poll(), RIPC_OK);
  EXPECT_EQ(ticket->cancel(), RIPC_OK);
}

TEST_F(TicketTest, AWaitThatGoesToSleepAsksThePeerToTellAndHearsIt) {
  const std::uint64_t transfer = channel_->make_transfer();
  const auto ticket = open(transfer);
  std::thread peer([&] {
    if (!eventually([&] { return channel_->is_watched(transfer); })) return;
    channel_->finish(transfer, RIPC_OK);
    channel_->tell(*keeper_, transfer);
  });
  EXPECT_EQ(wait(*ticket), RIPC_OK);
  peer.join();
}

TEST_F(TicketTest, AWaitFindsATransferThatFinishedBeforeItWasWatched) {
  const std::uint64_t transfer = channel_->make_transfer();
  const auto ticket = open(transfer);
  channel_->finish(transfer, RIPC_OK);
  EXPECT_EQ(ticket->wait(Deadline::never(), 0), RIPC_OK);
}

TEST_F(TicketTest, FinishesWithoutAnyWordBecauseTheKeeperLooks) {
  const std::uint64_t transfer = channel_->make_transfer();
  (void)open_with_lease(transfer);
  EXPECT_TRUE(memory_is_held());
  channel_->finish(transfer, RIPC_OK);
  EXPECT_TRUE(eventually([&] { return !memory_is_held(); }));
  EXPECT_FALSE(channel_->is_open(transfer));
}

TEST_F(TicketTest, OfAChannelThatTellsOfEachEndIsWatchedFromTheStartAndEndsByThat) {
  channel_ = std::make_shared<FakeChannel>(true);
  const std::uint64_t transfer = channel_->make_transfer();
  const auto ticket = open_with_lease(transfer);
  EXPECT_TRUE(channel_->is_watched(transfer));
  EXPECT_EQ(ticket->poll(), RIPC_PENDING);
  channel_->finish(transfer, RIPC_OK);
  EXPECT_EQ(ticket->poll(), RIPC_PENDING) << "nobody looks";
  channel_->tell(*keeper_, transfer);
  EXPECT_FALSE(memory_is_held());
  EXPECT_EQ(ticket->poll(), RIPC_OK);
  EXPECT_EQ(wait(*ticket), RIPC_OK);
}

TEST_F(TicketTest, OfAChannelThatTellsOfEachEndIsWaitedForAsleepWhateverTheSpin) {
  channel_ = std::make_shared<FakeChannel>(true);
  EXPECT_FALSE(sender_->loop_serves());
  const auto ticket = open(channel_->make_transfer());
  EXPECT_TRUE(sender_->loop_serves());
  std::atomic<pid_t> waiter{0};
  std::thread thread([&] {
    waiter = gettid();
    EXPECT_EQ(ticket->wait(Deadline::after(kTicketPatience), kTicketPatience), RIPC_CANCELLED);
  });
  EXPECT_TRUE(eventually([&] { return waiter != 0 && support::state_of_thread(waiter) == 'S'; }));
  EXPECT_EQ(ticket->cancel(), RIPC_CANCELLED);
  thread.join();
  EXPECT_FALSE(sender_->loop_serves());
}

TEST_F(TicketTest, OfAChannelThatTellsOfEachEndMayHaveEndedBeforeItWasOpened) {
  channel_ = std::make_shared<FakeChannel>(true);
  const std::uint64_t transfer = channel_->make_transfer();
  channel_->finish(transfer, RIPC_REFUSED);
  EXPECT_EQ(open(transfer)->poll(), RIPC_REFUSED);
}

TEST_F(TicketTest, OfAChannelThatTellsOfEachEndTimesOutAndEndsWithTheChannel) {
  channel_ = std::make_shared<FakeChannel>(true);
  const std::uint64_t late = channel_->make_transfer(), lost = channel_->make_transfer();
  const auto first = open(late, monotonic_now() + 2'000'000), second = open(lost);
  EXPECT_EQ(wait(*first), RIPC_TIMEOUT);
  std::thread peer([&] {
    channel_->die();
    keeper_->channel_lost(*channel_);
  });
  EXPECT_EQ(wait(*second), RIPC_PEER_DEAD);
  peer.join();
}

TEST_F(TicketTest, RunsTheCallbackOnce) {
  Outcome outcome;
  const std::uint64_t transfer = channel_->make_transfer();
  const auto ticket = open(transfer, UINT64_MAX, &outcome);
  EXPECT_TRUE(channel_->is_watched(transfer));
  channel_->finish(transfer, RIPC_REFUSED);
  channel_->tell(*keeper_, transfer);
  channel_->tell(*keeper_, transfer);
  EXPECT_TRUE(eventually([&] { return outcome.calls == 1; }));
  EXPECT_EQ(outcome.status, RIPC_REFUSED);
  EXPECT_EQ(ticket->poll(), RIPC_REFUSED);
  EXPECT_EQ(outcome.calls, 1);
}

TEST_F(TicketTest, RunsTheCallbackOfATransferThatHadFinishedWhenItWasOpened) {
  Outcome outcome;
  const std::uint64_t transfer = channel_->make_transfer();
  channel_->finish(transfer, RIPC_OK);
  (void)open(transfer, UINT64_MAX, &outcome);
  EXPECT_TRUE(eventually([&] { return outcome.calls == 1; }));
}

TEST_F(TicketTest, CancelWithdrawsWhatThePeerHasNotTaken) {
  const std::uint64_t transfer = channel_->make_transfer();
  const auto ticket = open_with_lease(transfer);
  EXPECT_EQ(ticket->cancel(), RIPC_CANCELLED);
  EXPECT_FALSE(channel_->is_open(transfer));
  EXPECT_FALSE(memory_is_held());
  EXPECT_EQ(ticket->poll(), RIPC_CANCELLED);
}

TEST_F(TicketTest, KeepsTheMemoryOfACancelledMessageWhileThePeerStillReads) {
  const std::uint64_t transfer = channel_->make_transfer(State::pulling);
  const auto ticket = open_with_lease(transfer);
  EXPECT_EQ(ticket->cancel(), RIPC_CANCELLED);
  EXPECT_TRUE(memory_is_held());
  channel_->stop_draining(transfer);
  EXPECT_TRUE(eventually([&] { return !memory_is_held(); }));
}

TEST_F(TicketTest, CannotBeCancelledWhileThePeerHoldsALentView) {
  const std::uint64_t transfer = channel_->make_transfer(State::lent);
  const auto ticket = open_with_lease(transfer);
  EXPECT_EQ(ticket->cancel(), RIPC_PENDING);
  EXPECT_TRUE(memory_is_held());
  channel_->finish(transfer, RIPC_OK);
  EXPECT_EQ(wait(*ticket), RIPC_OK);
  EXPECT_FALSE(memory_is_held());
}

TEST_F(TicketTest, TimesOut) {
  Outcome outcome;
  const std::uint64_t transfer = channel_->make_transfer();
  const auto ticket = open(transfer, monotonic_now() + 2'000'000, &outcome);
  EXPECT_EQ(wait(*ticket), RIPC_TIMEOUT);
  EXPECT_FALSE(channel_->is_open(transfer)) << "it was withdrawn";
  EXPECT_TRUE(eventually([&] { return outcome.calls == 1; }));
  EXPECT_EQ(outcome.status, RIPC_TIMEOUT);
}

TEST_F(TicketTest, TimesOutAlsoWhenItWasOpenedInTheLoop) {
  Outcome outcome;
  const std::uint64_t transfer = channel_->make_transfer();
  loop_->post_top_level(
      [&] { loop_->post_top_level([&] { (void)open(transfer, monotonic_now() + 2'000'000, &outcome); }); });
  EXPECT_TRUE(eventually([&] { return outcome.calls == 1; }));
  EXPECT_EQ(outcome.status, RIPC_TIMEOUT);
}

TEST_F(TicketTest, ThatWasLentInTimeIsCompleteWhenTheViewIsGivenBackHoweverLate) {
  const std::uint64_t transfer = channel_->make_transfer(State::lent), later = channel_->make_transfer();
  const auto ticket = open(transfer, monotonic_now());
  const auto other = open(later, monotonic_now() + 1'000'000);
  EXPECT_EQ(wait(*other), RIPC_TIMEOUT) << "so the time of the first has passed";
  EXPECT_EQ(ticket->poll(), RIPC_PENDING);
  channel_->finish(transfer, RIPC_OK);
  EXPECT_EQ(wait(*ticket), RIPC_OK);
}

TEST_F(TicketTest, EndsWhenTheChannelIsLost) {
  const std::uint64_t done = channel_->make_transfer(), pending = channel_->make_transfer();
  Outcome outcome;
  const auto first = open(done), second = open(pending, UINT64_MAX, &outcome);
  channel_->finish(done, RIPC_OK);
  channel_->die();
  keeper_->channel_lost(*channel_);
  EXPECT_EQ(first->poll(), RIPC_OK) << "what the peer had finished stays finished";
  EXPECT_EQ(second->poll(), RIPC_PEER_DEAD);
  EXPECT_TRUE(eventually([&] { return outcome.calls == 1; }));
}

TEST_F(TicketTest, EndSenderEndsItsTicketsOnly) {
  const std::uint64_t mine = channel_->make_transfer(), other = channel_->make_transfer();
  const auto ticket = open(mine), stays = open(other, UINT64_MAX, nullptr, std::make_shared<TicketSender>());
  keeper_->end_sender(*sender_);
  EXPECT_EQ(ticket->poll(), RIPC_CLOSED);
  EXPECT_EQ(stays->poll(), RIPC_PENDING);
}

TEST_F(TicketTest, EndRangeEndsTicketsThatExposeAByteOfIt) {
  std::array<std::byte, 64> memory{};
  const spi::Bytes bytes(memory);
  const auto open_range = [&](spi::Bytes range) {
    Ticket::Parts parts;
    parts.channel = channel_;
    parts.transfer = channel_->make_transfer();
    parts.sender = sender_;
    return keeper_->open(keeper_->prepare(std::move(parts)), {}, {range});
  };
  const auto before = open_range(bytes.subspan(0, 16)), across = open_range(bytes.subspan(8, 9)),
             inside = open_range(bytes.subspan(20, 2)), after = open_range(bytes.subspan(32, 8));
  keeper_->end_range(bytes.subspan(16, 16));
  EXPECT_EQ(before->poll(), RIPC_PENDING);
  EXPECT_EQ(across->poll(), RIPC_CANCELLED);
  EXPECT_EQ(inside->poll(), RIPC_CANCELLED);
  EXPECT_EQ(after->poll(), RIPC_PENDING);
}

TEST_F(TicketTest, EndSenderKeepsLentMemoryUntilTheViewIsGivenBack) {
  const std::uint64_t transfer = channel_->make_transfer(State::lent);
  const auto ticket = open_with_lease(transfer);
  keeper_->end_sender(*sender_);
  EXPECT_EQ(ticket->poll(), RIPC_CLOSED);
  EXPECT_TRUE(memory_is_held());
  channel_->finish(transfer, RIPC_OK);
  EXPECT_TRUE(eventually([&] { return !memory_is_held(); }));
}

TEST_F(TicketTest, ShutDownHoldsNothing) {
  const std::uint64_t lent = channel_->make_transfer(State::lent);
  const auto ticket = open_with_lease(lent);
  keeper_->shut_down();
  EXPECT_EQ(ticket->poll(), RIPC_CLOSED);
  EXPECT_FALSE(memory_is_held());
}

TEST_F(TicketTest, CanBeWaitedForInACallback) {
  const std::uint64_t transfer = channel_->make_transfer();
  const auto ticket = open(transfer);
  std::atomic<int> status{-1};
  loop_->post_top_level([&] { status = wait(*ticket); });
  ASSERT_TRUE(eventually([&] { return channel_->is_watched(transfer); }));
  channel_->finish(transfer, RIPC_OK);
  loop_->post([&] { channel_->tell(*keeper_, transfer); });
  EXPECT_TRUE(eventually([&] { return status >= 0; }));
  EXPECT_EQ(status, RIPC_OK);
}

TEST_F(TicketTest, AWaitInACallbackEndsWhenAnotherThreadEndsTheTicket) {
  channel_ = std::make_shared<FakeChannel>(true);
  const auto ticket = open(channel_->make_transfer());
  std::atomic<pid_t> waiter{0};
  std::atomic<int> status{RIPC_PENDING};
  loop_->post_top_level([&] {
    waiter = gettid();
    status = ticket->wait(Deadline::never(), 0);
  });
  ASSERT_TRUE(eventually([&] { return waiter != 0 && support::state_of_thread(waiter) == 'S'; }));
  EXPECT_EQ(ticket->cancel(), RIPC_CANCELLED);
  EXPECT_TRUE(eventually([&] { return status == RIPC_CANCELLED; }));
}

TEST_F(TicketTest, AWaitHandlesWhatTheLoopSharesAndNeedsNoOtherThread) {
  channel_ = std::make_shared<FakeChannel>(true);
  const std::uint64_t transfer = channel_->make_transfer();
  const auto ticket = open(transfer);
  std::thread::id handled_by;
  const UniqueFd fd = make_eventfd();
  HandlerSet& shared = loop_->shared().descriptors();
  on_signal(shared, fd, [&] {
    handled_by = std::this_thread::get_id();
    channel_->finish(transfer, RIPC_OK);
    channel_->tell(*keeper_, transfer);
  });
  const pid_t waiter = gettid();
  std::jthread peer([&] {
    (void)eventually([&] { return support::state_of_thread(waiter) == 'S'; });
    signal(fd);
  });
  EXPECT_EQ(wait(*ticket), RIPC_OK);
  EXPECT_EQ(handled_by, std::this_thread::get_id());
  shared.remove(fd.get());
}

TEST_F(TicketTest, AWaitThatHandlesWhatTheLoopSharesEndsWhenAnotherThreadOrTheLoopEndsTheTicket) {
  channel_ = std::make_shared<FakeChannel>(true);
  for (const bool in_loop : {false, true}) {
    const std::uint64_t transfer = channel_->make_transfer();
    const auto ticket = open(transfer);
    const pid_t waiter = gettid();
    std::jthread other([&] {
      (void)eventually([&] { return support::state_of_thread(waiter) == 'S'; });
      if (in_loop) {
        channel_->finish(transfer, RIPC_OK);
        loop_->post([&] { channel_->tell(*keeper_, transfer); });
      } else {
        EXPECT_EQ(ticket->cancel(), RIPC_CANCELLED);
      }
    });
    EXPECT_EQ(wait(*ticket), in_loop ? RIPC_OK : RIPC_CANCELLED);
  }
}

TEST_F(TicketTest, AWokenThreadFindsAllThatHaveFinishedTogether) {
  const std::uint64_t first = channel_->make_transfer(), second = channel_->make_transfer();
  const auto awaited = open(first), other = open(second);
  std::atomic<int> seen{-1};
  std::atomic<pid_t> sleeper{0};
  std::jthread waiter([&] {
    sleeper = gettid();
    (void)wait(*awaited);
    seen = other->poll();
  });
  // Waits for the sleep too: a thread that only watches may still find the end of `first` itself.
  ASSERT_TRUE(eventually([&] { return channel_->is_watched(first) && support::state_of_thread(sleeper) == 'S'; }));
  loop_->post([&] {
    channel_->finish(first, RIPC_OK);
    channel_->tell(*keeper_, first);
    // Gives the other thread time to run, if it is woken now.
    for (const Deadline enough = Deadline::after(5'000'000); seen < 0 && !enough.expired();) std::this_thread::yield();
    channel_->finish(second, RIPC_OK);
    channel_->tell(*keeper_, second);
  });
  waiter.join();
  EXPECT_EQ(seen, RIPC_OK);
}

TEST_F(TicketTest, CompletesOnceWhenEverythingHappensAtOnce) {
  for (int round = 0; round < 200; ++round) {
    Outcome outcome;
    const std::uint64_t transfer = channel_->make_transfer();
    const auto ticket = open(transfer, monotonic_now() + static_cast<Nanoseconds>(round) * 1000, &outcome);
    ripc_status cancelled = RIPC_PENDING, waited = RIPC_PENDING;
    std::thread canceller([&] { cancelled = ticket->cancel(); });
    std::thread waiter([&] { waited = wait(*ticket); });
    channel_->tell(*keeper_, transfer);
    canceller.join();
    waiter.join();
    EXPECT_EQ(cancelled, waited);
    ASSERT_TRUE(eventually([&] { return outcome.calls != 0; }));
    EXPECT_EQ(outcome.status, waited);
    EXPECT_TRUE(waited == RIPC_CANCELLED || waited == RIPC_TIMEOUT);
    EXPECT_EQ(outcome.calls, 1);
  }
}

}  // namespace
}  // namespace ripc::internal::core
