// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/service_state.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace ripc::internal::shm {
namespace {

using Slot = ServiceStateTable::Slot;

TEST(ServiceState, GivesEachServiceALineOfItsOwn) {
  ServiceStateTable table;
  std::vector<Slot> slots;
  std::set<ServiceLine*> lines;
  for (std::size_t i = 0; i < 2 * kServicesPerStatePage + 1; ++i) {
    Result<Slot> slot = table.allocate();
    ASSERT_TRUE(slot.ok()) << slot.status().text();
    EXPECT_LT(slot->index_in_page(), kServicesPerStatePage);
    lines.insert(&slot->line());
    slots.push_back(std::move(slot).value());
  }
  EXPECT_EQ(lines.size(), slots.size());
}

TEST(ServiceState, CanBeReadThroughThePageDescriptorButNotWritten) {
  ServiceStateTable table;
  Result<Slot> slot = table.allocate();
  ASSERT_TRUE(slot.ok());
  EXPECT_FALSE(map_foreign_memory(slot->page_descriptor(), kStatePageSize, true).ok());
  Result<Mapping> page = map_foreign_memory(slot->page_descriptor(), kStatePageSize, false);
  ASSERT_TRUE(page.ok()) << page.status().text();
  const auto& seen = reinterpret_cast<const ServiceLine*>(page->data())[slot->index_in_page()];
  slot->line().sleep_epoch = 7;
  EXPECT_EQ(seen.sleep_epoch, 7u);
}

TEST(ServiceState, ShowsPeersThatAServiceEnded) {
  ServiceStateTable table;
  Mapping page;
  const ServiceLine* line = nullptr;
  std::uint32_t before = 0;
  {
    Result<Slot> slot = table.allocate();
    ASSERT_TRUE(slot.ok());
    page = std::move(map_foreign_memory(slot->page_descriptor(), kStatePageSize, false)).value();
    line = &reinterpret_cast<const ServiceLine*>(page.data())[slot->index_in_page()];
    before = line->registration;
    const Slot moved = std::move(slot).value();
    EXPECT_EQ(line->registration, before) << "moving ends nothing";
  }
  EXPECT_NE(line->registration, before);
  const std::uint32_t ended = line->registration;
  Result<Slot> next = table.allocate();
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(line->registration, ended) << "the line is used again, with another registration than before";
}

TEST(ServiceState, UsesFreedLinesAgain) {
  ServiceStateTable table;
  Result<Slot> keeps_the_page = table.allocate();
  ASSERT_TRUE(keeps_the_page.ok());
  for (int i = 0; i < 1000; ++i) {
    Result<Slot> slot = table.allocate();
    ASSERT_TRUE(slot.ok());
    EXPECT_EQ(slot->page_descriptor(), keeps_the_page->page_descriptor());
  }
}

TEST(ServiceState, MayBeUsedByManyThreads) {
  ServiceStateTable table;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (std::uint32_t i = 0; i < 300; ++i) {
        std::vector<Slot> slots;
        for (int count = 0; count < 20; ++count) {
          Result<Slot> slot = table.allocate();
          if (!slot.ok()) continue;
          slot->line().sleep_epoch = i;
          EXPECT_EQ(slot->line().sleep_epoch, i);
          slots.push_back(std::move(slot).value());
        }
        EXPECT_EQ(slots.size(), 20u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ripc::internal::shm
