// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/queue.hpp"

#include <algorithm>

#include "base/copy.hpp"

namespace ripc::internal::shm {

namespace {

constexpr std::uint32_t round_up_to_line(std::size_t size) noexcept {
  return static_cast<std::uint32_t>((size + kCacheLine - 1) & ~(kCacheLine - 1));
}

}  // namespace

ripc_status QueueWriter::write(std::span<const std::span<const std::byte>> ranges) noexcept {
  std::size_t length = 0;
  for (const auto& range : ranges) length += range.size();
  return write_with(length, [&](std::byte* to) {
    for (const auto& range : ranges) {
      copy_small(to, range.data(), range.size());
      to += range.size();
    }
  });
}

bool QueueWriter::next_shared_cell(std::uint32_t& cell) noexcept {
  bias_.share();
  std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  cell = cells_of(tail);
  return is_roomy(cell) &&
         tail_.compare_exchange_strong(tail, tail + kOneCell, std::memory_order_acq_rel, std::memory_order_relaxed);
}

bool QueueWriter::reserve(std::uint32_t wanted, std::size_t data_size, Reservation& reservation) noexcept {
  const std::uint32_t needed = round_up_to_line(data_size);
  bias_.share();
  std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint32_t cell = cells_of(tail);
    const std::uint32_t data = data_of(tail);
    std::uint32_t start = data;
    if (needed != 0) {
      const std::uint32_t position = data & (geometry_.data_bytes - 1);
      if (position + needed > geometry_.data_bytes) start += geometry_.data_bytes - position;
    }
    const std::uint32_t end = start + needed;

    // If the peer writes nonsense into the heads, the queue looks full here, or has room that the masks keep in bounds.
    std::uint32_t used = cell - known_head_cells_.load(std::memory_order_acquire);
    bool fits = used < geometry_.cells &&
                (needed == 0 || end - known_head_data_.load(std::memory_order_acquire) <= geometry_.data_bytes);
    if (!fits) {
      const std::uint32_t head_cells = control_->receiver.head_cells.load(std::memory_order_acquire);
      const std::uint32_t head_data = control_->receiver.head_data.load(std::memory_order_acquire);
      known_head_cells_.store(head_cells, std::memory_order_release);
      known_head_data_.store(head_data, std::memory_order_release);
      used = cell - head_cells;
      fits = used < geometry_.cells && (needed == 0 || end - head_data <= geometry_.data_bytes);
    }
    if (!fits) {
      // The queue is full, unless another thread has moved the tail meanwhile.
      const std::uint64_t now = tail_.load(std::memory_order_relaxed);
      if (now == tail) return false;
      tail = now;
      continue;
    }
    const std::uint32_t count = std::min(wanted, geometry_.cells - used);
    if (tail_.compare_exchange_weak(tail, pack(cell + count, end), std::memory_order_acq_rel,
                                    std::memory_order_relaxed)) {
      reservation = {cell, count, start, end};
      return true;
    }
  }
}

bool QueueWriter::has_room() const noexcept {
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  const std::uint32_t cell = cells_of(tail);
  const std::uint32_t data = data_of(tail);
  // A sender that starts again for every single free cell takes turns with the receiver on the same cache lines.
  const std::uint32_t enough = geometry_.cells - geometry_.cells / 4;
  if (cell - control_->receiver.head_cells.load(std::memory_order_acquire) > enough) return false;
  const std::uint32_t largest = round_up_to_line(geometry_.packet_limit());
  const std::uint32_t position = data & (geometry_.data_bytes - 1);
  const std::uint32_t padding = position + largest > geometry_.data_bytes ? geometry_.data_bytes - position : 0;
  const std::uint32_t used = data - control_->receiver.head_data.load(std::memory_order_acquire);
  return used <= geometry_.data_bytes && used + padding + largest <= geometry_.data_bytes;
}

bool QueueReader::peek_outside(std::span<const std::byte>& packet) noexcept {
  const Cell& cell = next_cell();
  // Each value is read once: the peer may change it at any time. The length that peek_inside() saw is ignored.
  const std::uint32_t length = cell.length.load(std::memory_order_relaxed);
  const std::uint32_t offset = *const_cast<const volatile std::uint32_t*>(&cell.outside.data_offset);
  const std::uint32_t end = *const_cast<const volatile std::uint32_t*>(&cell.outside.data_end);
  if (length > geometry_.packet_limit() || offset % kCacheLine != 0 || offset > geometry_.data_bytes ||
      length > geometry_.data_bytes - offset) {
    broken_ = true;
    return false;
  }
  peeked_data_ = end;
  packet = {data_ + offset, length};
  return true;
}

bool QueueReader::half_is_free() noexcept {
  // Waking the sender for every single cell would cost a system call each.
  const Cell& halfway = cells_[(head_ + geometry_.cells / 2) & mask_];
  if (halfway.sequence.load(std::memory_order_relaxed) == head_ + geometry_.cells / 2 + 1) return false;
  control_->sender.room_wanted.store(0, std::memory_order_relaxed);
  return true;
}

}  // namespace ripc::internal::shm
