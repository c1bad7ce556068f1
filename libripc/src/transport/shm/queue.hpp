// SPDX-License-Identifier: Apache-2.0
// The two ends of a link's packet queue: many sending threads of one process, one receiving thread of another.
//
// A sender reserves a cell (and room in the data area) with one compare-and-swap on memory private to its process,
// fills it and commits it by writing the cell's sequence number: no lock, no system call. A sender that dies in between
// leaves a cell that is never committed; the receiver then sees an empty queue, and drops the link when the death is
// noticed. As a cell's first word is only ever a sequence number, payload can never be mistaken for a committed cell.
#pragma once

#include <cstring>
#include <span>

#include "ripc/ripc.h"
#include "transport/shm/layout.hpp"

namespace ripc::shm {

class QueueWriter {
 public:
  QueueWriter(std::byte* base, Geometry geometry) noexcept
      : control_(reinterpret_cast<Control*>(base)),
        cells_(reinterpret_cast<Cell*>(base + kControlSize)),
        data_(base + geometry.data_offset()),
        geometry_(geometry) {}

  // RIPC_OK, RIPC_AGAIN, RIPC_TOO_LARGE. Any thread of the process that owns the writer.
  ripc_status write(std::span<const std::span<const std::byte>> ranges) noexcept;

  // True if a quarter of the cells, and room for a packet of the largest size, are free now.
  bool has_room() const noexcept;

 private:
  struct Reservation {
    std::uint32_t cell;
    std::uint32_t data_start;
    std::uint32_t data_end;
  };
  bool reserve(std::size_t data_size, Reservation& reservation) noexcept;

  Control* control_;
  Cell* cells_;
  std::byte* data_;
  Geometry geometry_;
  // Cells in the low half, end of the data area in the high half: reserved together so that both stay in order.
  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};
  std::atomic<std::uint32_t> known_head_cells_{0};
  std::atomic<std::uint32_t> known_head_data_{0};
};

class QueueReader {
 public:
  QueueReader(std::byte* base, Geometry geometry) noexcept
      : control_(reinterpret_cast<Control*>(base)),
        cells_(reinterpret_cast<Cell*>(base + kControlSize)),
        data_(base + geometry.data_offset()),
        geometry_(geometry) {}

  // The oldest committed packet, still in shared memory. False if there is none, or if the peer wrote nonsense: then
  // broken() is true and stays so.
  bool peek(std::span<const std::byte>& packet) noexcept {
    Cell& cell = cells_[head_ & (geometry_.cells - 1)];
    // Both lines of the cell travel at the same time; without this the second would only be asked for after the first.
    if (uses_second_line_) __builtin_prefetch(reinterpret_cast<const std::byte*>(&cell) + kCacheLine);
    if (cell.sequence.load(std::memory_order_acquire) != head_ + 1) {
      run_ = 0;
      return false;
    }
    const std::uint32_t length = cell.length.load(std::memory_order_relaxed);
    uses_second_line_ = length > kCacheLine - kCellHeader;
    if (length > kInlineCapacity) [[unlikely]]
      return locate_outside(cell, length, packet);
    packet = {cell.bytes, length};
    peeked_data_ = head_data_;
    return true;
  }

  // Done with the packet that peek() showed.
  void pop() noexcept {
    ++head_;
    head_data_ = peeked_data_;
    // In the middle of a run, the cells that follow are most likely there.
    if (++run_ > kPrefetchAfter) __builtin_prefetch(&cells_[(head_ + kPrefetchDistance) & (geometry_.cells - 1)]);
  }

  // Gives the room of all popped packets back to the sender. Each call takes a cache line away from a sender that waits
  // for room, so it is made once for several packets.
  void publish() noexcept {
    control_->receiver.head_data.store(head_data_, std::memory_order_release);
    control_->receiver.head_cells.store(head_, std::memory_order_release);
  }

  bool broken() const noexcept { return broken_; }

  // Any thread. True while the sender waits for room.
  bool room_is_wanted() const noexcept { return control_->sender.room_wanted.load(std::memory_order_seq_cst) != 0; }

  // True once, when the sender waits for room and at least half of the queue is free.
  bool take_room_request() noexcept {
    return control_->sender.room_wanted.load(std::memory_order_relaxed) != 0 && half_is_free();
  }

 private:
  static constexpr std::uint32_t kPrefetchAfter = 2;
  static constexpr std::uint32_t kPrefetchDistance = 4;

  bool locate_outside(const Cell& cell, std::uint32_t length, std::span<const std::byte>& packet) noexcept;
  bool half_is_free() noexcept;

  Control* control_;
  Cell* cells_;
  const std::byte* data_;
  Geometry geometry_;
  std::uint32_t head_ = 0;
  std::uint32_t head_data_ = 0;
  std::uint32_t peeked_data_ = 0;  // head_data_ once the packet that peek() showed is popped
  std::uint32_t run_ = 0;          // packets since the queue was seen empty
  bool uses_second_line_ = false;
  bool broken_ = false;
};

}  // namespace ripc::shm
