// SPDX-License-Identifier: Apache-2.0
// A table of slots that grows as needed up to a limit, never moves a slot, and frees none before it is destroyed. So
// a thread that knows an index may look at its slot without a lock of the table.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "ripc/ripc.h"

namespace ripc::internal::remote {

// Any thread may call anything.
template <typename Slot, std::size_t kLimit>
class SlotTable {
 public:
  static constexpr std::size_t kChunk = 64;
  static_assert(kLimit % kChunk == 0 && kLimit <= 65536);

  ~SlotTable() {
    for (std::atomic<Chunk*>& chunk : chunks_) delete chunk.load(std::memory_order_relaxed);
  }

  // nullptr: never used so far.
  Slot* find(std::size_t index) const noexcept {
    if (index >= kLimit) return nullptr;
    Chunk* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &(*chunk)[index % kChunk];
  }

  // Gets a slot that no one else has; the one released last comes first. RIPC_AGAIN: all are taken; RIPC_NO_MEMORY.
  ripc_status acquire(std::uint16_t& index, Slot*& slot) noexcept try {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (used_ == kLimit) return RIPC_AGAIN;
      if (used_ % kChunk == 0) {
        // So that release() takes no memory.
        free_.reserve(used_ + kChunk);
        chunks_[used_ / kChunk].store(std::make_unique<Chunk>().release(), std::memory_order_release);
      }
      index = static_cast<std::uint16_t>(used_++);
    }
    slot = find(index);
    return RIPC_OK;
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }

  // True if this many slots can be acquired.
  bool has(std::size_t count) const noexcept {
    const std::lock_guard lock(mutex_);
    return free_.size() + kLimit - used_ >= count;
  }

  void release(std::uint16_t index) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(index);
  }

  // Every slot that was ever taken.
  template <typename Visit>
  void for_each(Visit&& visit) {
    std::size_t used = 0;
    {
      const std::lock_guard lock(mutex_);
      used = used_;
    }
    for (std::size_t index = 0; index < used; ++index) visit(*find(index));
  }

 private:
  using Chunk = std::array<Slot, kChunk>;

  std::array<std::atomic<Chunk*>, kLimit / kChunk> chunks_{};
  mutable std::mutex mutex_;
  std::size_t used_ = 0;
  std::vector<std::uint16_t> free_;
};

}  // namespace ripc::internal::remote
