// SPDX-License-Identifier: Apache-2.0
// Buffers: leases from the pool, registered foreign memory, lookup, statistics.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "harness.hpp"

namespace conformance {
namespace {

class Buffers : public TransportTest {
 protected:
  void SetUp() override { context_ = make_context(); }

  // The lease or registration around an address, as (start, size); (nullptr, 0) if there is none.
  std::pair<void*, std::size_t> find(const void* address) {
    void* data = nullptr;
    std::size_t size = 0;
    const ripc_status status = ripc_buffer_find(context_.get(), address, &data, &size);
    if (status == RIPC_OK) return {data, size};
    EXPECT_EQ(status, RIPC_INVALID_ARGUMENT);
    return {nullptr, 0};
  }

  Context context_;
};
CONFORMANCE_SUITE(Buffers);

// ---- Leases ------------------------------------------------------------------------------------------------------

TEST_P(Buffers, LeasesAreWritableAndAligned) {
  for (const std::size_t size : {1u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 65'536u, 1'000'000u, 40u << 20, 100u << 20}) {
    const auto data = lease(context_, size);
    ASSERT_NE(data, nullptr) << size;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data.get()) % (size >= 4096 ? 4096 : 64), 0u) << size;
    std::memset(data.get(), 0x5a, size);
    EXPECT_EQ(data[size - 1], 0x5a);
  }
}

TEST_P(Buffers, LeasesDoNotOverlap) {
  std::vector<decltype(lease(context_, 1))> leases;
  std::vector<std::pair<unsigned char*, std::size_t>> ranges;
  for (unsigned index = 0; index < 500; ++index) {
    const std::size_t size = 1 + index * 37 % 9000;
    leases.push_back(lease(context_, size));
    ranges.emplace_back(leases.back().get(), size);
    std::memset(leases.back().get(), static_cast<int>(index % 256), size);
  }
  for (unsigned index = 0; index < 500; ++index) {
    const auto [data, size] = ranges[index];
    EXPECT_EQ(std::count(data, data + size, static_cast<unsigned char>(index % 256)),
              static_cast<std::ptrdiff_t>(size));
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t index = 1; index < ranges.size(); ++index) {
    EXPECT_LE(ranges[index - 1].first + ranges[index - 1].second, ranges[index].first);
  }
}

TEST_P(Buffers, OnlyTheStartOfALeaseCanBeReleasedAndOnlyOnce) {
  void* data = nullptr;
  ASSERT_EQ(ripc_buffer_lease(context_.get(), 10'000, &data), RIPC_OK);
  int local = 0;
  EXPECT_EQ(ripc_buffer_release(context_.get(), static_cast<char*>(data) + 1), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_buffer_release(context_.get(), static_cast<char*>(data) + 4096), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_buffer_release(context_.get(), &local), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_buffer_release(context_.get(), data), RIPC_OK);
  EXPECT_EQ(ripc_buffer_release(context_.get(), data), RIPC_INVALID_ARGUMENT);
}

TEST_P(Buffers, AReleasedBufferIsReused) {
  lease(context_, 5000).reset();
  const ripc_pool_statistics before = pool_statistics_of(context_);
  for (int count = 0; count < 100; ++count) lease(context_, 5000).reset();
  const ripc_pool_statistics after = pool_statistics_of(context_);
  EXPECT_EQ(after.leases, before.leases + 100);
  EXPECT_EQ(after.releases, before.releases + 100);
  EXPECT_EQ(after.reuses, before.reuses + 100);
  EXPECT_EQ(after.arenas, before.arenas) << "no new memory for it";
  EXPECT_EQ(after.reserved, before.reserved);
}

TEST_P(Buffers, ThePoolIsBounded) {
  constexpr std::uint64_t kPoolLimit = 128u << 20;
  const Context context = make_context([](ripc_context_options& options) { options.pool_limit = kPoolLimit; });
  EXPECT_EQ(pool_statistics_of(context).limit, kPoolLimit);
  std::vector<void*> leases;
  ripc_status status = RIPC_OK;
  while (leases.size() < 1000) {
    void* data = nullptr;
    status = ripc_buffer_lease(context.get(), 16u << 20, &data);
    if (status != RIPC_OK) break;
    leases.push_back(data);
  }
  EXPECT_EQ(status, RIPC_NO_MEMORY);
  EXPECT_GE(leases.size(), 4u);
  EXPECT_LE(leases.size(), 8u);
  EXPECT_LE(pool_statistics_of(context).reserved, kPoolLimit);
  EXPECT_GE(pool_statistics_of(context).failures, 1u);
  void* huge = nullptr;
  EXPECT_EQ(ripc_buffer_lease(context.get(), kPoolLimit + 1, &huge), RIPC_NO_MEMORY);
  EXPECT_EQ(ripc_buffer_lease(context.get(), SIZE_MAX, &huge), RIPC_NO_MEMORY);

  ASSERT_EQ(ripc_buffer_release(context.get(), leases.back()), RIPC_OK);
  leases.pop_back();
  EXPECT_NE(lease(context, 16u << 20), nullptr) << "what came back can be leased again";
  for (void* data : leases) EXPECT_EQ(ripc_buffer_release(context.get(), data), RIPC_OK);
  EXPECT_EQ(pool_statistics_of(context).leased, 0u);
}

TEST_P(Buffers, WithoutALimitItIsAQuarterOfTheMachinesMemory) {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const std::uint64_t quarter =
      static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / 4;
  const std::uint64_t limit = pool_statistics_of(context_).limit;
  EXPECT_GE(limit, quarter - quarter / 100);
  EXPECT_LE(limit, quarter + quarter / 100);
}

TEST_P(Buffers, LargeLeasesGiveTheirMemoryBack) {
  const std::uint64_t before = pool_statistics_of(context_).leased;
  {
    const auto data = lease(context_, 200u << 20);
    EXPECT_GE(pool_statistics_of(context_).leased, before + (200u << 20));
  }
  EXPECT_EQ(pool_statistics_of(context_).leased, before);
}

TEST_P(Buffers, AnyThreadMayLeaseAndRelease) {
  std::vector<std::jthread> threads;
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int count = 0; count < 500; ++count) {
        const std::size_t size = static_cast<std::size_t>(1 + count * 97 % 20'000);
        const auto data = lease(context_, size);
        std::memset(data.get(), thread + 1, size);
        if (std::count(data.get(), data.get() + size, thread + 1) != static_cast<std::ptrdiff_t>(size)) ++wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool_statistics_of(context_).leased, 0u);
}

// ---- Lookup ------------------------------------------------------------------------------------------------------

TEST_P(Buffers, ALeaseIsFoundFromAnyAddressInside) {
  for (const std::size_t size : {64u, 100u, 5000u, 3u << 20, 50u << 20}) {
    const auto data = lease(context_, size);
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, size / 2, size - 1}) {
      const auto [start, found] = find(data.get() + offset);
      EXPECT_EQ(start, data.get()) << size << " at " << offset;
      EXPECT_GE(found, size);
    }
  }
}

TEST_P(Buffers, MemoryWithoutALeaseIsNotFound) {
  int local = 0;
  EXPECT_EQ(find(&local).first, nullptr);
  void* data = nullptr;
  ASSERT_EQ(ripc_buffer_lease(context_.get(), 5000, &data), RIPC_OK);
  const std::size_t size = find(data).second;
  EXPECT_NE(find(static_cast<char*>(data) + size).first, data) << "one past the end";
  ASSERT_EQ(ripc_buffer_release(context_.get(), data), RIPC_OK);
  EXPECT_EQ(find(data).first, nullptr) << "the lease has ended";
}

TEST_P(Buffers, LeasesOfAnotherContextAreNotFound) {
  const Context other = make_context();
  const auto data = lease(other, 5000);
  EXPECT_EQ(find(data.get()).first, nullptr);
  EXPECT_EQ(ripc_buffer_release(context_.get(), data.get()), RIPC_INVALID_ARGUMENT);
}

// ---- Registrations -----------------------------------------------------------------------------------------------

TEST_P(Buffers, RegisteredMemoryIsFoundFromAnyAddressInside) {
  Bytes memory(10'000);
  ASSERT_EQ(ripc_memory_register(context_.get(), memory.data(), memory.size()), RIPC_OK);
  for (const std::size_t offset : {0u, 1u, 5000u, 9999u}) {
    const auto [start, size] = find(memory.data() + offset);
    EXPECT_EQ(start, memory.data());
    EXPECT_EQ(size, memory.size());
  }
  EXPECT_EQ(find(memory.data() + memory.size()).first, nullptr);
  EXPECT_EQ(find(memory.data() - 1).first, nullptr);
  ASSERT_EQ(ripc_memory_unregister(context_.get(), memory.data()), RIPC_OK);
  EXPECT_EQ(find(memory.data()).first, nullptr);
}

TEST_P(Buffers, RegisteringARangeAgainIsCountedAndAnsweredFromTheCache) {
  Bytes memory(10'000);
  const ripc_pool_statistics before = pool_statistics_of(context_);
  ASSERT_EQ(ripc_memory_register(context_.get(), memory.data(), memory.size()), RIPC_OK);
  ASSERT_EQ(ripc_memory_register(context_.get(), memory.data(), memory.size()), RIPC_OK);
  ASSERT_EQ(ripc_memory_register(context_.get(), memory.data(), memory.size()), RIPC_OK);
  EXPECT_EQ(pool_statistics_of(context_).registration_hits, before.registration_hits + 2);
  EXPECT_EQ(ripc_memory_unregister(context_.get(), memory.data()), RIPC_OK);
  EXPECT_EQ(ripc_memory_unregister(context_.get(), memory.data()), RIPC_OK);
  EXPECT_EQ(find(memory.data()).first, memory.data()) << "one registration is left";
  EXPECT_EQ(ripc_memory_unregister(context_.get(), memory.data()), RIPC_OK);
  EXPECT_EQ(ripc_memory_unregister(context_.get(), memory.data()), RIPC_INVALID_ARGUMENT);
}

TEST_P(Buffers, UnregisterOfWhatIsNotRegisteredIsRefused) {
  Bytes memory(10'000);
  EXPECT_EQ(ripc_memory_unregister(context_.get(), memory.data()), RIPC_INVALID_ARGUMENT);
  ASSERT_EQ(ripc_memory_register(context_.get(), memory.data(), memory.size()), RIPC_OK);
  EXPECT_EQ(ripc_memory_unregister(context_.get(), memory.data() + 1), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_buffer_release(context_.get(), memory.data()), RIPC_INVALID_ARGUMENT) << "it is not a lease";
  EXPECT_EQ(ripc_memory_unregister(context_.get(), memory.data()), RIPC_OK);
  EXPECT_EQ(ripc_memory_register(context_.get(), memory.data(), 0), RIPC_INVALID_ARGUMENT);
}

TEST_P(Buffers, SendingFromRegisteredMemoryKeepsItRegistered) {
  const Context other = make_context();
  const Service sender = make_service(context_);
  const Service receiver = make_service(other);
  Bytes memory = pattern(100'000, 1);
  Bytes window(memory.size());
  ASSERT_EQ(ripc_memory_register(context_.get(), memory.data(), memory.size()), RIPC_OK);
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(ripc_window_post(receiver.get(), window.data(), window.size(), 1), RIPC_OK);
    const Ticket ticket = send_long(sender, id_of(receiver), {item(memory, RIPC_ITEM_LONG)});
    EXPECT_TRUE(holds(view_of(receive(receiver), 0), RIPC_VIEW_WINDOW, memory));
    EXPECT_EQ(final_status(ticket), RIPC_OK);
  }
  EXPECT_EQ(find(memory.data() + 7).first, memory.data());
  EXPECT_EQ(ripc_memory_unregister(context_.get(), memory.data()), RIPC_OK) << "after the tickets it ends at once";
}

TEST_P(Buffers, StatisticsAddUp) {
  const auto small = lease(context_, 100);
  const auto large = lease(context_, 1u << 20);
  const ripc_pool_statistics statistics = pool_statistics_of(context_);
  EXPECT_EQ(statistics.size, sizeof statistics);
  EXPECT_GE(statistics.leased, 100u + (1u << 20));
  EXPECT_GE(statistics.reserved, statistics.leased);
  EXPECT_LE(statistics.reserved, statistics.limit);
  EXPECT_EQ(statistics.leases, 2u);
  EXPECT_EQ(statistics.releases, 0u);
  EXPECT_GE(statistics.arenas, 1u);
  EXPECT_LE(statistics.huge_page_arenas, statistics.arenas);
  EXPECT_EQ(statistics.failures, 0u);
  EXPECT_EQ(statistics.deferred_releases, 0u);
}

}  // namespace
}  // namespace conformance
