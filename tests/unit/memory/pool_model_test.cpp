// SPDX-License-Identifier: Apache-2.0
// The pool against a simple model of itself, over random sequences of calls with fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "memory/pool.hpp"
#include "pool_helpers.hpp"

namespace ripc::internal::memory {
namespace {

class Model {
 public:
  Model(std::uint64_t seed, std::uint64_t limit, std::size_t largest)
      : random_(seed), pool_(limit), limit_(limit), largest_(largest) {}

  void step() {
    switch (below(10)) {
      case 0:
      case 1:
      case 2:
        return lease();
      case 3:
      case 4:
        return release();
      case 5:
        return hold();
      case 6:
        return drop_hold();
      case 7:
        return find();
      case 8:
        return misuse();
      default:
        return registration();
    }
  }

  void finish() {
    while (!holds_.empty()) drop_hold();
    while (!leases_.empty()) release();
    const ripc_pool_statistics now = statistics_of(pool_);
    EXPECT_EQ(now.leased, 0u);
    EXPECT_EQ(now.leases, now.releases);
    // With nothing leased, one lease can take the whole limit (in units of 2 MiB).
    EXPECT_TRUE(pool_.lease(limit_ / kArenaAlignment * kArenaAlignment).ok());
  }

  void check() {
    const ripc_pool_statistics now = statistics_of(pool_);
    ASSERT_LE(now.reserved, limit_);
    ASSERT_LE(now.leased, now.reserved);
    ASSERT_EQ(now.leased, leased_);
    ASSERT_EQ(now.leases, leased_count_);
    ASSERT_EQ(now.releases, released_count_);
    ASSERT_EQ(now.deferred_releases, deferred_count_);
    ASSERT_EQ(now.failures, failures_);
    ASSERT_EQ(now.registrations, registered_.size());
  }

 private:
  struct Memory {
    std::size_t size;
    std::uint8_t mark;
    int holds = 0;
    bool released = false;
  };
  using Memories = std::map<std::byte*, Memory>;  // memory that must not be leased again

  std::uint64_t below(std::uint64_t bound) {
    return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random_);
  }

  std::size_t any_size() {
    const double exponent = std::uniform_real_distribution<>(0, std::log2(static_cast<double>(largest_)))(random_);
    return static_cast<std::size_t>(std::exp2(exponent));
  }

  // Writing all of it would take long; the ends and the middle show overlaps.
  static void mark(std::byte* data, const Memory& memory) {
    for (const std::size_t offset : {std::size_t{0}, memory.size / 2, memory.size - 1}) {
      data[offset] = std::byte{memory.mark};
    }
  }
  static void expect_mark(const std::byte* data, const Memory& memory) {
    for (const std::size_t offset : {std::size_t{0}, memory.size / 2, memory.size - 1}) {
      ASSERT_EQ(data[offset], std::byte{memory.mark});
    }
  }

  void lease() {
    const std::size_t size = any_size();
    Result<std::byte*> data = pool_.lease(size);
    if (!data.ok()) {
      ASSERT_EQ(data.status().code(), RIPC_NO_MEMORY);
      ++failures_;
      return;
    }
    ASSERT_TRUE(is_aligned(*data, size >= 4096 ? 4096 : 64));
    const auto next = memories_.lower_bound(*data);
    ASSERT_TRUE(next == memories_.end() || *data + size <= next->first) << "overlaps";
    if (next != memories_.begin()) {
      const auto& [start, before] = *std::prev(next);
      ASSERT_LE(start + before.size, *data) << "overlaps";
    }
    const Memory memory{size, static_cast<std::uint8_t>(below(256))};
    mark(*data, memory);
    memories_.emplace(*data, memory);
    leases_.push_back(*data);
    leased_ += size;
    ++leased_count_;
  }

  void release() {
    if (leases_.empty()) return;
    std::swap(leases_[below(leases_.size())], leases_.back());
    std::byte* const data = leases_.back();
    leases_.pop_back();
    const auto memory = memories_.find(data);
    expect_mark(data, memory->second);
    ASSERT_TRUE(pool_.release(data).ok());
    ++released_count_;
    memory->second.released = true;
    if (memory->second.holds > 0) {
      ++deferred_count_;
    } else {
      forget(memory);
    }
    ASSERT_EQ(pool_.release(data).code(), RIPC_INVALID_ARGUMENT);
  }

  void hold() {
    if (leases_.empty()) return;
    std::byte* const data = leases_[below(leases_.size())];
    Memory& memory = memories_.at(data);
    const std::size_t offset = below(memory.size);
    Result<Hold> hold = pool_.hold(data + offset, below(memory.size - offset + 1));
    ASSERT_TRUE(hold.ok()) << hold.status().text();
    ASSERT_EQ(hold->arena()->base + hold->offset(), data + offset);
    ++memory.holds;
    holds_.emplace_back(data, std::move(hold).value());
  }

  void drop_hold() {
    if (holds_.empty()) return;
    std::swap(holds_[below(holds_.size())], holds_.back());
    const auto memory = memories_.find(holds_.back().first);
    expect_mark(memory->first, memory->second);
    holds_.pop_back();
    if (--memory->second.holds == 0 && memory->second.released) forget(memory);
  }

  void find() {
    if (memories_.empty()) return;
    auto memory = memories_.begin();
    std::advance(memory, static_cast<std::ptrdiff_t>(below(std::min<std::size_t>(memories_.size(), 20))));
    const Result<std::span<std::byte>> found = pool_.find(memory->first + below(memory->second.size));
    ASSERT_EQ(found.ok(), !memory->second.released);
    if (!found.ok()) return;
    ASSERT_EQ(found->data(), memory->first);
    ASSERT_EQ(found->size(), memory->second.size);
  }

  void misuse() {
    if (leases_.empty()) return;
    std::byte* const data = leases_[below(leases_.size())];
    const std::size_t size = memories_.at(data).size;
    if (size > 1) {
      ASSERT_EQ(pool_.release(data + 1 + below(size - 1)).code(), RIPC_INVALID_ARGUMENT);
    }
    ASSERT_EQ(pool_.hold(data + below(size), size + 1).status().code(), RIPC_INVALID_ARGUMENT);
  }

  void registration() {
    std::byte* const start = foreign_.data() + below(foreign_.size());
    const std::size_t size = 1 + below(static_cast<std::uint64_t>(foreign_.data() + foreign_.size() - start));
    if (below(2) == 0) {
      ASSERT_TRUE(pool_.register_memory(start, size).ok());
      ++registered_[{start, size}];
    } else if (!registered_.empty()) {
      auto chosen = registered_.lower_bound({start, 0});
      if (chosen == registered_.end()) chosen = registered_.begin();
      chosen = registered_.lower_bound({chosen->first.first, 0});
      ASSERT_TRUE(pool_.unregister_memory(chosen->first.first).ok());
      if (--chosen->second == 0) registered_.erase(chosen);
    }
    const std::byte* const address = foreign_.data() + below(foreign_.size());
    std::size_t smallest = SIZE_MAX;
    for (const auto& [range, count] : registered_) {
      if (range.first <= address && address < range.first + range.second) smallest = std::min(smallest, range.second);
    }
    const Result<std::span<std::byte>> found = pool_.find(address);
    ASSERT_EQ(found.ok(), smallest != SIZE_MAX);
    ASSERT_EQ(found.ok() ? found->size() : SIZE_MAX, smallest);
  }

  void forget(Memories::iterator memory) {
    leased_ -= memory->second.size;
    memories_.erase(memory);
  }

  std::mt19937_64 random_;
  Pool pool_;
  std::uint64_t limit_;
  std::size_t largest_;
  Memories memories_;
  std::vector<std::byte*> leases_;
  std::vector<std::pair<std::byte*, Hold>> holds_;
  std::vector<std::byte> foreign_ = std::vector<std::byte>(500);
  std::map<std::pair<std::byte*, std::size_t>, int> registered_;
  std::uint64_t leased_ = 0;
  std::uint64_t leased_count_ = 0;
  std::uint64_t released_count_ = 0;
  std::uint64_t deferred_count_ = 0;
  std::uint64_t failures_ = 0;
};

void run(std::uint64_t seed, std::uint64_t limit, std::size_t largest) {
  Model model(seed, limit, largest);
  for (int step = 0; step < 20000; ++step) {
    model.step();
    model.check();
    if (testing::Test::HasFatalFailure()) FAIL() << "step " << step << ", seed " << seed;
  }
  model.finish();
}

TEST(PoolModel, RandomCallsBehaveLikeTheModel) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) run(seed, 700 * kMebi, 80 * kMebi);
}

TEST(PoolModel, RandomCallsAtTheLimitBehaveLikeTheModel) {
  for (const std::uint64_t seed : {4u, 5u, 6u}) run(seed, 100 * kMebi, 70 * kMebi);
}

TEST(PoolModel, RandomSmallLeasesBehaveLikeTheModel) {
  for (const std::uint64_t seed : {7u, 8u, 9u}) run(seed, 3 * kMebi, 100 * kKibi);
}

}  // namespace
}  // namespace ripc::internal::memory
