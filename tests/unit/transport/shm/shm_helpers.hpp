// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the shared-memory transport: the memory of a link, mapped once for each of its ends.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "base/shared_memory.hpp"
#include "transport/shm/layout.hpp"

namespace ripc::internal::shm {

// The same memory at two addresses, as two processes see it.
class LinkMemory {
 public:
  explicit LinkMemory(std::size_t size = kControlSize) : size_(size) {
    Result<SharedMemory> memory = create_shared_memory("ripc-test", size, PeerAccess::read_write);
    EXPECT_TRUE(memory.ok()) << memory.status().text();
    if (!memory.ok()) return;
    memory_ = std::move(*memory);
    Result<Mapping> second = map_foreign_memory(memory_.fd.get(), size, true);
    EXPECT_TRUE(second.ok()) << second.status().text();
    if (second.ok()) peer_ = std::move(*second);
  }

  std::byte* owner() const { return memory_.mapping.data(); }
  std::byte* peer() const { return peer_.data(); }
  std::size_t size() const { return size_; }
  Control& control() const { return *reinterpret_cast<Control*>(owner()); }
  Cell& cell(std::uint32_t index) const { return reinterpret_cast<Cell*>(owner() + kControlSize)[index]; }

 private:
  std::size_t size_;
  SharedMemory memory_;
  Mapping peer_;
};

// Numbers that look random and are the same in every run.
class Sequence {
 public:
  explicit Sequence(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 33);
  }
  std::uint32_t below(std::uint32_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

}  // namespace ripc::internal::shm
