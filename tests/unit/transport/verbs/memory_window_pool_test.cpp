// SPDX-License-Identifier: Apache-2.0
// The keys of memory windows that are used again, over a real device.
#include "transport/verbs/bulk/memory_window_pool.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "transport/verbs/device/device_list.hpp"

namespace ripc::internal::verbs {
namespace {

TEST(MemoryWindows, AreUsedAgainByEachOfTheirKeysOnce) {
  const Result<std::shared_ptr<const DeviceList>> devices = DeviceList::open();
  if (!devices.ok()) GTEST_SKIP() << devices.status().text();
  bool any = false;
  for (const DevicePointer& device : (*devices)->devices()) {
    if (!device->windows) continue;
    any = true;
    SCOPED_TRACE(device->name);
    const auto made = std::make_shared<std::atomic<std::uint64_t>>(0);
    MemoryWindowPool windows(device, made);
    std::set<std::uint32_t> keys;
    ibv_mw* first = nullptr;
    for (std::uint32_t use = 0; use < MemoryWindowPool::kKeys; ++use) {
      const Result<MemoryWindowPool::Window> window = windows.take();
      ASSERT_TRUE(window.ok()) << window.status().text();
      if (use == 0) keys.insert((first = window->window)->rkey);
      EXPECT_EQ(window->window, first);
      EXPECT_TRUE(keys.insert(window->key).second) << "key " << window->key << " was used before";
      windows.give_back(*window);
    }
    EXPECT_EQ(*made, 1u);
    const Result<MemoryWindowPool::Window> next = windows.take();
    ASSERT_TRUE(next.ok()) << next.status().text();
    EXPECT_EQ(*made, 2u) << "the first one has no more keys";
    MemoryWindowPool::unmake(*next);
  }
  if (!any) GTEST_SKIP() << "no device here has windows";
}

}  // namespace
}  // namespace ripc::internal::verbs
