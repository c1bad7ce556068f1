// SPDX-License-Identifier: Apache-2.0
// Repeats operations, and lets each of their allocations fail once.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "harness.hpp"
#include "support/failing_allocation.hpp"

namespace conformance {

class NoMemoryTest : public PairTest {
 protected:
  using FailingAllocation = support::FailingAllocation;
  using Count = FailingAllocation::Count;
  using Where = FailingAllocation::Where;
  static constexpr std::uint64_t kMostAllocations = 5000;  // of one operation
  static constexpr std::size_t kLong = 100'000;
  static bool is_reported(ripc_status status) { return status == RIPC_OK || status == RIPC_NO_MEMORY; }

  void SetUp() override {
    if (!traits().survives_want) GTEST_SKIP() << "not promised over RDMA";
    PairTest::SetUp();
  }
  // `operation` returns a status and takes no memory of its own; `check` gets that status.
  using Operation = std::function<ripc_status()>;
  using Check = std::function<void(ripc_status)>;
  void fail_each(
      const Operation& operation, const Check& check, const std::function<void()>& prepare = [] {}) {
    for (const Count count : {Count::one, Count::rest}) {
      std::uint64_t nth = 1;
      for (bool failed = true; failed; ++nth) {
        SCOPED_TRACE(testing::Message() << "allocation " << nth
                                        << (count == Count::rest ? " and all that follow" : ""));
        ASSERT_LT(nth, kMostAllocations);
        prepare();
        ripc_status status = RIPC_PENDING;
        {
          const FailingAllocation failing(nth, Where::here, count);
          status = operation();
          failed = failing.failed();
        }
        EXPECT_TRUE(is_reported(status)) << ripc_status_name(status) << ": " << ripc_last_error();
        if (!failed) {
          EXPECT_EQ(status, RIPC_OK);
        }
        check(status);
        if (HasFatalFailure() || HasNonfatalFailure()) return;
        prepare();
        status = operation();
        ASSERT_EQ(status, RIPC_OK) << "without want: " << ripc_last_error();
        check(status);
        if (HasFatalFailure() || HasNonfatalFailure()) return;
      }
    }
  }

  void post(std::size_t size = kLong) {
    ASSERT_EQ(ripc_window_post(server_.get(), window_.data(), size, 7), RIPC_OK) << ripc_last_error();
  }
  void withdraw() { ASSERT_EQ(ripc_window_withdraw(server_.get(), 7, nullptr), RIPC_OK); }
  ripc_status receive_once(std::uint32_t flags = 0) {
    received_ = nullptr;
    return ripc_receive(server_.get(), flags, kLimit, &received_);
  }
  Message take_received() { return Message(std::exchange(received_, nullptr)); }
  void expect_empty() {
    ripc_message* message = nullptr;
    EXPECT_EQ(ripc_receive(server_.get(), 0, 0, &message), RIPC_EMPTY);
    ripc_message_release(message);
  }
  // How many messages with a long item can be under way at once.
  std::size_t count_transfers() {
    std::vector<Ticket> tickets;
    send_until_full(client_, server_id(), item_at(data_.data(), kLong, RIPC_ITEM_LONG), tickets);
    for (const Ticket& ticket : tickets) EXPECT_EQ(ripc_ticket_cancel(ticket.get()), RIPC_CANCELLED);
    expect_empty();
    return tickets.size();
  }

  Bytes data_ = pattern(kLong, 1);
  Bytes window_ = Bytes(kLong);
  ripc_message* received_ = nullptr;

 private:
  // A peer that is not told of an event must not find out about it by a timeout.
  NoSignsOfLife quiet_;
};

}  // namespace conformance
