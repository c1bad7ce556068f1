// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/lanes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ripc::internal::remote {
namespace {

constexpr Nanoseconds kRateTime = 1'000'000;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kMostAhead = 2;
constexpr Nanoseconds kStallTimeout = 4'000'000'000;

struct Wire {};
struct TestLane : Lane<Wire> {
  std::size_t segments = 0;
  std::size_t most_ahead = kMostAhead;
  std::size_t under_way() const noexcept { return segments; }
  bool has_room() const noexcept { return segments < most_ahead; }
};

class LanesTest : public testing::Test {
 protected:
  // Adds a lane of this rate, in MiB per millisecond; 0: not known.
  Wire& add(std::uint64_t rate) {
    std::list<TestLane> made(1);
    made.front().connection = std::make_shared<Wire>();
    if (rate == 0) {
      EXPECT_TRUE(Endpoint::parse("192.0.2.1", 1, made.front().peer));
    }
    Wire& wire = *made.front().connection;
    if (rate != 0) {
      made.front().pace.asked(rate * kMiB, 0);
      made.front().pace.arrived(rate * kMiB, kRateTime);
    }
    lanes_.add(made);
    return wire;
  }
  // The connection that is asked for the next segment.
  const Wire* ask(std::uint64_t rest = 1024 * kMiB, Nanoseconds now = 0) {
    const auto [lane, segment] = lanes_.next(rest, now, [&](const TestLane& one) { return can_carry_(one); });
    if (lane == nullptr) return nullptr;
    lane->pace.asked(segment, now);
    asked_ = segment;
    ++lane->segments;
    return lane->connection.get();
  }

  Lanes<TestLane> lanes_{kStallTimeout};
  std::uint64_t asked_ = 0;  // bytes, by the last ask()
  std::function<bool(const TestLane&)> can_carry_ = [](const TestLane&) { return true; };
};

TEST_F(LanesTest, WithoutAnyNoOneIsAsked) { EXPECT_EQ(ask(), nullptr); }

TEST_F(LanesTest, OneAloneIsAskedWhileItHasRoom) {
  const Wire& only = add(0);
  EXPECT_EQ(ask(), &only);
  EXPECT_EQ(ask(), &only);
  EXPECT_EQ(ask(), nullptr);
}

TEST_F(LanesTest, TheOneThatWillHaveItFirstIsAsked) {
  const Wire& slow = add(10);
  const Wire& fast = add(20);
  EXPECT_EQ(ask(), &fast);
  EXPECT_EQ(ask(), &slow) << "as soon, and the first";
  EXPECT_EQ(ask(), &fast);
  EXPECT_EQ(ask(), nullptr) << "it would be the fast one";
}

TEST_F(LanesTest, TheRestOfAnItemIsDividedByTheRates) {
  const Wire& fast = add(3);
  const Wire& slow = add(1);
  EXPECT_EQ(ask(kMiB), &fast);
  EXPECT_EQ(asked_, kMiB * 3 / 4);
  EXPECT_EQ(ask(kMiB / 4), &slow);
  EXPECT_EQ(asked_, kMiB / 4);
}

TEST_F(LanesTest, AnItemOfUpTo128KiBTakesOneRail) {
  constexpr std::uint64_t kItem = std::uint64_t{128} << 10;
  const Wire& slow = add(2);
  const Wire& fast = add(3);
  EXPECT_EQ(ask(kItem), &fast);
  EXPECT_GE(asked_, kItem);
  EXPECT_EQ(lanes_.find(slow)->segments, 0u);
}

TEST_F(LanesTest, AnItemOf160KiBTakesTwoRails) {
  constexpr std::uint64_t kItem = std::uint64_t{160} << 10;
  const Wire& one = add(2);
  const Wire& other = add(2);
  EXPECT_EQ(ask(kItem), &one);
  EXPECT_EQ(asked_, kItem / 2);
  EXPECT_EQ(ask(kItem - asked_), &other);
  EXPECT_EQ(asked_, kItem / 2);
}

TEST_F(LanesTest, OneOfUnknownRateHasASingleSegment) {
  const Wire& known = add(10);
  const Wire& unknown = add(0);
  EXPECT_EQ(ask(), &unknown);
  EXPECT_EQ(ask(), &known);
}

// An item that comes over rails of these rates, in Mb/s.
class WholeItem : public LanesTest, public testing::WithParamInterface<std::array<double, 2>> {
 protected:
  struct Asked {
    TestLane* lane;
    std::uint64_t bytes;
    Nanoseconds there;
  };
  // When the last byte of each rail is there. The rails are idle at first.
  std::array<Nanoseconds, 2> ends_of(std::uint64_t size) {
    std::map<const TestLane*, double> rates;
    std::map<const TestLane*, Nanoseconds> ends;
    for (const double megabits : GetParam()) {
      std::list<TestLane> made(1);
      TestLane& lane = made.front();
      lane.connection = std::make_shared<Wire>();
      lane.most_ahead = kSegmentsAhead;
      rates[&lane] = megabits / 8000;
      ends[&lane] = 0;
      lane.pace.asked(kMiB, 0);
      lane.pace.arrived(kMiB, static_cast<Nanoseconds>(kMiB / rates[&lane]));
      lanes_.add(made);
    }
    std::vector<Asked> under_way;
    for (Nanoseconds now = 0;;) {
      while (size != 0) {
        const auto [lane, segment] = lanes_.next(size, now, can_carry_);
        if (lane == nullptr) break;
        const std::uint64_t bytes = std::min(segment, size);
        lane->pace.asked(bytes, now);
        ++lane->segments;
        size -= bytes;
        ends[lane] = std::max(ends[lane], now) + static_cast<Nanoseconds>(static_cast<double>(bytes) / rates[lane]);
        under_way.push_back({lane, bytes, ends[lane]});
      }
      if (under_way.empty()) break;
      const auto first = std::ranges::min_element(under_way, {}, &Asked::there);
      const Asked arrived = *first;
      under_way.erase(first);
      now = arrived.there;
      --arrived.lane->segments;
      arrived.lane->pace.arrived(arrived.bytes, now);
    }
    lanes_.clear();
    return {ends.begin()->second, std::next(ends.begin())->second};
  }
};

TEST_P(WholeItem, IsThereWhenItCanBeAndNoRailEndsMuchLaterThanTheOther) {
  const double rate = (GetParam()[0] + GetParam()[1]) / 8000;
  const double slowest = std::min(GetParam()[0], GetParam()[1]) / 8000;
  const double segment_time = std::max<double>(RailPace::kSegmentTime, RailPace::kLeastSegment / slowest);
  for (const std::uint64_t size : {kMiB / 2, kMiB, kMiB * 3 / 2, 2 * kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB}) {
    SCOPED_TRACE(size);
    const auto [one, other] = ends_of(size);
    EXPECT_LE(std::max(one, other) - std::min(one, other), segment_time);
    EXPECT_LE(std::max(one, other), static_cast<double>(size) / rate * 1.05);
  }
}

INSTANTIATE_TEST_SUITE_P(, WholeItem,
                         testing::Values(std::array{80.0, 40.0}, std::array{400.0, 400.0}, std::array{400.0, 110.0}),
                         [](const auto& instance) {
                           return std::to_string(static_cast<int>(instance.param[0])) + "And" +
                                  std::to_string(static_cast<int>(instance.param[1]));
                         });

TEST_F(LanesTest, ASpareIsTriedOnceInASecond) {
  const Wire& spare = add(1);
  const Wire& fast = add(100);
  lanes_.find(fast)->segments = 1;
  lanes_.find(fast)->pace.asked(200 * kMiB, 0);
  EXPECT_EQ(ask(), &spare);
  EXPECT_EQ(ask(), &fast) << "not once more";
}

TEST_F(LanesTest, ASpareIsNotTriedIfThatDelaysTheItem) {
  (void)add(1);
  const Wire& fast = add(100);
  lanes_.find(fast)->pace.asked(200 * kMiB, 0);
  EXPECT_EQ(ask(kMiB / 2), &fast);
}

TEST_F(LanesTest, ASpareIsTriedWithLittleWhereMoreDelaysTheItem) {
  const Wire& spare = add(1);
  const Wire& fast = add(100);
  lanes_.find(fast)->pace.asked(200 * kMiB, 0);
  const auto [lane, segment] = lanes_.next(50 * kMiB, 0, can_carry_);
  ASSERT_NE(lane, nullptr);
  EXPECT_EQ(lane->connection.get(), &spare);
  EXPECT_EQ(segment, RailPace::kLeastSegment);
  EXPECT_EQ(ask(50 * kMiB), &fast) << "not once more";
}

TEST_F(LanesTest, OnlyLanesThatCanCarryTheItemAreAsked) {
  const Wire& slow = add(1);
  (void)add(100);
  can_carry_ = [&](const TestLane& lane) { return lane.connection.get() == &slow; };
  EXPECT_EQ(ask(), &slow);
  EXPECT_EQ(ask(), &slow);
  EXPECT_EQ(ask(), nullptr);
}

// Here, the rail of unknown rate is the one that brings nothing.
TEST_F(LanesTest, ARailThatBringsNothingRestsForLongerEachTime) {
  constexpr Nanoseconds kShortest = kStallTimeout / 4;
  constexpr Nanoseconds kLongest = kStallTimeout * 4;
  const Wire& good = add(10);
  Nanoseconds now = 1;
  for (Nanoseconds pause = kShortest; pause <= kLongest; pause *= 2) {
    const Wire& bad = add(0);
    EXPECT_EQ(ask(kMiB, now), &bad);
    lanes_.remove(*lanes_.find(bad), now);
    const Wire& next = add(0);
    EXPECT_EQ(lanes_.quickest().get(), &good);
    EXPECT_EQ(ask(kMiB, now + pause - 1), &good);
    lanes_.find(good)->segments = 0;
    lanes_.remove(*lanes_.find(next), now);
    now += pause;
  }
  const Wire& last = add(0);
  EXPECT_EQ(ask(kMiB, now), &last);
  lanes_.find(last)->pace.arrived(kMiB, now + kRateTime);
  lanes_.remove(*lanes_.find(last), now);
  const Wire& fresh = add(0);
  EXPECT_EQ(ask(kMiB, now), &fresh) << "it has brought something";
}

// The owner of an item has not answered yet on the good rail.
TEST_F(LanesTest, ARailThatRestsIsNotAskedWhereAnotherWillCarryTheItem) {
  const Wire& good = add(10);
  (void)add(0);
  const Wire& bad = add(0);
  lanes_.find(bad)->rests_until = 1;
  const auto is_bad = [&](const TestLane& lane) { return lane.connection.get() == &bad; };
  const auto is_known = [&](const TestLane& lane) { return is_bad(lane) || lane.connection.get() == &good; };
  EXPECT_EQ(lanes_.next(kMiB, 0, is_bad, is_known).first, nullptr);
  EXPECT_EQ(lanes_.next(kMiB, 0, is_bad, is_bad).first, lanes_.find(bad));
  EXPECT_EQ(lanes_.next(kMiB, 1, is_bad, is_known).first, lanes_.find(bad)) << "it has rested";
}

TEST_F(LanesTest, ARailThatBringsNothingIsAskedWhereThereIsNoOther) {
  for (int count = 0; count < 3; ++count) {
    const Wire& only = add(0);
    EXPECT_EQ(ask(), &only);
    EXPECT_EQ(lanes_.quickest().get(), &only);
    lanes_.remove(*lanes_.find(only), 0);
  }
}

TEST_F(LanesTest, TheQuickestIsTheOneThatOwesLeast) {
  EXPECT_EQ(lanes_.quickest(), nullptr);
  const Wire& first = add(10);
  const Wire& second = add(10);
  lanes_.find(first)->pace.asked(kMiB, 0);
  EXPECT_EQ(lanes_.quickest().get(), &second);
  lanes_.remove(*lanes_.find(second), 0);
  EXPECT_EQ(lanes_.quickest().get(), &first);
  EXPECT_NE(lanes_.rate_of(first), 0u);
  EXPECT_EQ(lanes_.rate_of(second), 0u) << "it is none of them";
}

}  // namespace
}  // namespace ripc::internal::remote
