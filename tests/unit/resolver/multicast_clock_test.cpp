// SPDX-License-Identifier: Apache-2.0
// Hosts whose clock is hours ahead and is then set back, as a time service does it after the boot.
#include <atomic>

#include "multicast_helpers.hpp"

namespace ripc::internal::test {
namespace {

constexpr Nanoseconds kTwoHours = 7'200'000'000'000;

std::atomic<Nanoseconds> fast_clock_is_ahead;

Nanoseconds fast_clock() noexcept { return realtime_now() + fast_clock_is_ahead; }

class MulticastClock : public MulticastTest {
 protected:
  static MulticastOptions with_fast_clock(MulticastOptions options) {
    options.wall_clock = fast_clock;
    return options;
  }
  void SetUp() override {
    MulticastTest::SetUp();
    fast_clock_is_ahead = kTwoHours;
  }
  static bool is_announced(MulticastContext& context) {
    return eventually([&] { return context->counters().announcements_sent == 2; });
  }

  const MulticastOptions right_ = loopback_options(kKeyText);
  const MulticastOptions fast_ = with_fast_clock(right_);
};

TEST_F(MulticastClock, AHostWhoseClockWasSetBackIsAnsweredAgain) {
  MulticastContext holder(right_);
  const spi::ServiceRecord record = holder.publish(7);
  ASSERT_TRUE(is_announced(holder));
  MulticastContext asker(fast_);
  EXPECT_FALSE(asker->resolve(7, Deadline::after(50'000'000)).ok());
  ASSERT_TRUE(eventually([&] { return holder->counters().stale != 0; }));
  fast_clock_is_ahead = 0;
  const Result<spi::ServiceRecord> found = asker.resolve(7);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, record);
}

TEST_F(MulticastClock, HostsWhoseClocksWereSetBackTogetherGoOnUnderstandingEachOther) {
  MulticastContext holder(fast_);
  MulticastContext asker(fast_);
  spi::ServiceRecord record = holder.publish(7);
  ASSERT_TRUE(asker.learns(record));
  ASSERT_TRUE(is_announced(holder));
  // More packets than a receiver remembers.
  ASSERT_TRUE(eventually([&] {
    EXPECT_FALSE(asker->resolve(8, Deadline::after(5'000'000)).ok());
    return holder->counters().packets_received > resolver::ReplayGuard::kRemembered;
  }));
  fast_clock_is_ahead = 0;
  record.addresses.front().locator += "0";
  ASSERT_TRUE(holder->update(record).ok());
  EXPECT_TRUE(asker.learns(record));
  asker->invalidate(record);
  const Result<spi::ServiceRecord> found = asker.resolve(7);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(*found, record);
}

}  // namespace
}  // namespace ripc::internal::test
