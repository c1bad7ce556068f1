// SPDX-License-Identifier: Apache-2.0
// The two ends of a link's packet queue: many sending threads of one process, one receiving thread of another.
//
// A sender reserves a cell (and room in the data area) in memory private to its process. This takes a plain store if
// only one thread sends, else one compare-and-swap. The sender then fills the cell and commits it by writing the cell's
// sequence number: no lock, no system call. A sender that dies in between leaves a cell that is never committed. The
// receiver then sees an empty queue, and drops the link when the death is noticed. As a cell's first word is only ever
// a sequence number, payload can never be mistaken for a committed cell.
#pragma once

#include <cstring>
#include <span>

#include "base/happens_before.hpp"
#include "base/thread_bias.hpp"
#include "ripc/ripc.h"
#include "transport/shm/layout.hpp"

namespace ripc::internal::shm {

// The memory that both ends have mapped.
class QueueMemory {
 public:
  QueueMemory(std::byte* base, Geometry geometry) noexcept
      : control_(reinterpret_cast<Control*>(base)),
        cells_(reinterpret_cast<Cell*>(base + kControlSize)),
        data_(base + geometry.data_offset()),
        geometry_(geometry),
        mask_(geometry.cells - 1) {}

 protected:
  Control* control_;
  Cell* cells_;
  std::byte* data_;
  Geometry geometry_;
  std::uint32_t mask_;  // of the index of a cell
};

class QueueWriter : private QueueMemory {
 public:
  using QueueMemory::QueueMemory;

  // RIPC_OK, RIPC_AGAIN, RIPC_TOO_LARGE. Any thread of the process that owns the writer.
  ripc_status write(std::span<const std::span<const std::byte>> ranges) noexcept;

  // The same for a packet of `length` bytes that `fill(std::byte*)` writes straight into the queue.
  template <typename Fill>
  ripc_status write_with(std::size_t length, Fill&& fill) noexcept {
    if (length > kInlineCapacity) [[unlikely]]
      return write_outside(length, fill);
    if (write_next(length, fill)) [[likely]]
      return RIPC_OK;
    const std::size_t written = write_inline(
        1, [&](std::size_t) { return length; }, [&](std::size_t, std::byte* to) { fill(to); });
    return written != 0 ? RIPC_OK : RIPC_AGAIN;
  }

  // The same for at most kInlineCapacity bytes, if that needs neither a look at the receiver's side nor a second
  // attempt. False: use write_with().
  template <typename Fill>
  bool write_next(std::size_t length, Fill&& fill) noexcept {
    std::uint32_t cell = 0;
    if (!next_cell(cell)) [[unlikely]]
      return false;
    commit(cell, length, [&](Cell& to) { fill(to.bytes); });
    return true;
  }

  // Writes several packets in order, each of at most kInlineCapacity bytes. Packet `index` has length_of(index) bytes,
  // which fill(index, to) writes. Returns how many found room. Any thread.
  template <typename Length, typename Fill>
  std::size_t write_inline(std::size_t count, Length&& length_of, Fill&& fill) noexcept {
    Reservation reservation;
    if (!reserve(static_cast<std::uint32_t>(count), 0, reservation)) return 0;
    for (std::uint32_t index = 0; index < reservation.cells; ++index) {
      commit(reservation.cell + index, length_of(index), [&](Cell& cell) { fill(index, cell.bytes); });
    }
    return reservation.cells;
  }

  // True if a quarter of the cells, and room for a packet of the largest size, are free now.
  bool has_room() const noexcept;

 private:
  struct Reservation {
    std::uint32_t cell;   // the first
    std::uint32_t cells;  // one after the other
    std::uint32_t data_start;
    std::uint32_t data_end;
  };
  // Reserves one cell. False: there is no room as far as is known, or another thread was faster.
  [[gnu::always_inline]] bool next_cell(std::uint32_t& cell) noexcept {
    if (!bias_.enter()) [[unlikely]]
      return next_shared_cell(cell);
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    cell = cells_of(tail);
    const bool has_room = is_roomy(cell);
    if (has_room) [[likely]]
      tail_.store(tail + kOneCell, std::memory_order_relaxed);
    bias_.leave();
    return has_room;
  }
  [[gnu::noinline]] bool next_shared_cell(std::uint32_t& cell) noexcept;
  bool is_roomy(std::uint32_t cell) const noexcept {
    return cell - known_head_cells_.load(std::memory_order_acquire) <= mask_;
  }
  // Reserves up to `wanted` cells, at least one, and `data_size` bytes of the data area. False: there is no room.
  bool reserve(std::uint32_t wanted, std::size_t data_size, Reservation& reservation) noexcept;

  // The number of cells is in the high half: when it wraps, nothing is carried into the low half.
  static constexpr std::uint64_t kOneCell = std::uint64_t{1} << 32;
  static constexpr std::uint64_t pack(std::uint32_t cells, std::uint32_t data) noexcept {
    return cells * kOneCell | data;
  }
  static constexpr std::uint32_t cells_of(std::uint64_t tail) noexcept {
    return static_cast<std::uint32_t>(tail >> 32);
  }
  static constexpr std::uint32_t data_of(std::uint64_t tail) noexcept { return static_cast<std::uint32_t>(tail); }

  template <typename Fill>
  ripc_status write_outside(std::size_t length, Fill&& fill) noexcept {
    if (length > geometry_.packet_limit()) return RIPC_TOO_LARGE;
    Reservation reservation;
    if (!reserve(1, length, reservation)) return RIPC_AGAIN;
    // Not read back from the cell: the receiver may write there.
    const std::uint32_t offset = reservation.data_start & (geometry_.data_bytes - 1);
    commit(reservation.cell, length, [&](Cell& cell) {
      cell.outside.data_offset = offset;
      cell.outside.data_end = reservation.data_end;
      fill(data_ + offset);
    });
    return RIPC_OK;
  }

  // Fills a reserved cell and hands it to the receiver.
  template <typename Fill>
  void commit(std::uint32_t index, std::size_t length, Fill&& fill) noexcept {
    // The thread that used this room last handed it on through the receiver's head, in another process.
    happens_after(control_);
    Cell& cell = cells_[index & mask_];
    fill(cell);
    cell.length.store(static_cast<std::uint32_t>(length), std::memory_order_relaxed);
    happens_before(control_);
    cell.sequence.store(index + 1, std::memory_order_release);
    // The receiver's cache holds the cells of the last round. Prefetching one that is needed soon hides the time it
    // takes to get it back. Leave out cells that the receiver has yet to read, and the next ones, which it polls while
    // it is idle.
    const std::uint32_t later = index + kPrefetchDistance;
    if (later - known_head_cells_.load(std::memory_order_relaxed) <= mask_) prefetch_for_write(&cells_[later & mask_]);
  }

  static constexpr std::uint32_t kPrefetchDistance = 16;
  static void prefetch_for_write(const void* line) noexcept {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" ::"m"(*static_cast<const char*>(line)));
#else
    __builtin_prefetch(line, 1);
#endif
  }

  // Cells and the end of the data area: reserved together so that both stay in order.
  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};
  ThreadBias bias_;  // of tail_
  std::atomic<std::uint32_t> known_head_cells_{0};
  std::atomic<std::uint32_t> known_head_data_{0};
};

class QueueReader : private QueueMemory {
 public:
  using QueueMemory::QueueMemory;

  // The oldest committed packet, still in shared memory. False if there is none, or if the peer wrote nonsense: then
  // broken() is true and stays so.
  bool peek(std::span<const std::byte>& packet) noexcept {
    return has_packet() && (peek_inside(packet) || peek_outside(packet));
  }

  // Whether there is a packet. Cheap enough to spin on.
  bool has_packet() const noexcept {
    const Cell& cell = next_cell();
    // This fetches both cache lines of the cell at once; otherwise the second would be fetched only after the first.
    if (uses_second_line_) __builtin_prefetch(reinterpret_cast<const std::byte*>(&cell) + kCacheLine);
    return cell.sequence.load(std::memory_order_acquire) == head_ + 1;
  }

  // As peek(), if has_packet() is true and the packet lies in its cell. False: it does not lie there.
  bool peek_inside(std::span<const std::byte>& packet) noexcept {
    const Cell& cell = next_cell();
    const std::uint32_t length = cell.length.load(std::memory_order_relaxed);
    uses_second_line_ = length > kCacheLine - kCellHeader;
    packet = {cell.bytes, length};
    return length <= kInlineCapacity;
  }

  // Removes the packet that peek() showed.
  void pop() noexcept {
    ++head_;
    head_data_ = peeked_data_;
    // A cell that is not written yet is left alone: prefetching it would take its line away from the sender.
    if (static_cast<std::int32_t>(written_ - head_) > static_cast<std::int32_t>(kPrefetchDistance))
      __builtin_prefetch(&cells_[(head_ + kPrefetchDistance) & mask_]);
  }

  // Whether more than kAhead packets are there. If so, pop() prefetches their cells from now on.
  bool look_ahead() noexcept {
    const std::uint32_t far = head_ + kAhead;
    if (static_cast<std::int32_t>(written_ - far) > 0) return true;
    // Senders commit in nearly the order of their cells; where they do not, a prefetch is wasted.
    if (cells_[far & mask_].sequence.load(std::memory_order_relaxed) != far + 1) return false;
    written_ = far + 1;
    return true;
  }

  // Gives the room of all popped packets back to the sender. Each call takes a cache line away from a sender that waits
  // for room, so it is made once for several packets.
  void publish() noexcept {
    ReceiverLine& line = control_->receiver;
    line.head_data.store(head_data_, std::memory_order_release);
    line.head_cells.store(head_, std::memory_order_release);
  }

  bool broken() const noexcept { return broken_; }

  // Any thread. True while the sender waits for room, or for the end of a transfer.
  bool sender_waits() const noexcept {
    return control_->sender.room_wanted.load(std::memory_order_seq_cst) != 0 ||
           control_->sender.transfers_watched.load(std::memory_order_seq_cst) != 0;
  }

  // True once, when the sender waits for room and at least half of the queue is free.
  bool take_room_request() noexcept {
    return control_->sender.room_wanted.load(std::memory_order_relaxed) != 0 && half_is_free();
  }

 private:
  static constexpr std::uint32_t kAhead = 32;
  static constexpr std::uint32_t kPrefetchDistance = 12;

  const Cell& next_cell() const noexcept { return cells_[head_ & mask_]; }
  bool peek_outside(std::span<const std::byte>& packet) noexcept;
  bool half_is_free() noexcept;

  std::uint32_t head_ = 0;
  std::uint32_t written_ = 0;  // all cells before this one, most likely; may lag behind head_
  std::uint32_t head_data_ = 0;
  std::uint32_t peeked_data_ = 0;  // head_data_ once the packet that peek() showed is popped
  bool uses_second_line_ = false;
  bool broken_ = false;
};

}  // namespace ripc::internal::shm
