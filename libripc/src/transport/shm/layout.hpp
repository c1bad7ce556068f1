// SPDX-License-Identifier: Apache-2.0
// The layout of the memory that the two ends of a link share. docs/wire.md, "Shared-memory queue", specifies it.
//
// A link carries packets one way, from one context to one service. The receiving side creates the memory:
//
//   control page   4096 bytes   indices, flags, transfer words, grant words
//   cells          128 bytes each; one per packet; a packet of up to 120 bytes lies in its cell
//   data area      larger packets, 64-byte aligned, never wrapping
//
// Either side may be hostile. A reader checks each value against the geometry known from the handshake, never against
// what the memory says.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ripc::internal::shm {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::size_t kControlSize = 4096;
inline constexpr std::size_t kCellSize = 128;
inline constexpr std::size_t kCellHeader = 8;
inline constexpr std::size_t kInlineCapacity = kCellSize - kCellHeader;
inline constexpr std::size_t kTransferSlots = 128;
inline constexpr std::size_t kGrantSlots = 64;

inline constexpr std::uint32_t kMinCells = 16, kMaxCells = 65536;
inline constexpr std::uint32_t kMinDataBytes = 4096, kMaxDataBytes = 64u << 20;

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

// Written by the receiver only.
struct alignas(kCacheLine) ReceiverLine {
  std::atomic<std::uint32_t> head_cells;  // cells consumed so far, modulo 2^32
  std::atomic<std::uint32_t> head_data;   // end of the data area consumed so far, modulo 2^32
};

// Written by the sender; the receiver clears what it has acted on.
struct alignas(kCacheLine) SenderLine {
  std::atomic<std::uint32_t> room_wanted;
  std::atomic<std::uint32_t> transfers_watched;
  std::atomic<std::uint64_t> watched[kTransferSlots / 64];  // a bit for each watched one; only the sender writes it
};

struct Control {
  alignas(kCacheLine) std::byte reserved[kCacheLine];
  ReceiverLine receiver;
  SenderLine sender;
  alignas(1024) std::atomic<std::uint64_t> transfers[kTransferSlots];
  std::atomic<std::uint64_t> grants[kGrantSlots];
};
static_assert(sizeof(SenderLine) == kCacheLine && offsetof(SenderLine, watched) == 8);
static_assert(sizeof(Control) <= kControlSize && offsetof(Control, transfers) == 1024 &&
              offsetof(Control, grants) == 2048);

// Where to find a packet that does not fit into its cell.
struct Outside {
  std::uint32_t data_offset;  // of the packet in the data area
  std::uint32_t data_end;     // running end of the data area after this packet, modulo 2^32
};

struct alignas(kCellSize) Cell {
  std::atomic<std::uint32_t> sequence;  // index of the packet plus one, modulo 2^32: written last
  std::atomic<std::uint32_t> length;    // of the packet
  union {
    std::byte bytes[kInlineCapacity];
    Outside outside;
  };
};
static_assert(sizeof(Cell) == kCellSize);

struct Geometry {
  std::uint32_t cells = 0;       // a power of two
  std::uint32_t data_bytes = 0;  // a power of two

  constexpr bool valid() const noexcept {
    return cells >= kMinCells && cells <= kMaxCells && (cells & (cells - 1)) == 0 && data_bytes >= kMinDataBytes &&
           data_bytes <= kMaxDataBytes && (data_bytes & (data_bytes - 1)) == 0;
  }
  constexpr std::size_t data_offset() const noexcept { return kControlSize + std::size_t{cells} * kCellSize; }
  constexpr std::size_t total() const noexcept { return data_offset() + data_bytes; }
  // A packet of this size always fits into an empty queue, wherever it starts.
  constexpr std::size_t packet_limit() const noexcept { return data_bytes / 2; }
};

// The state of one service, in memory that peers can only read: one cache line of a page of 64 services.
struct alignas(kCacheLine) ServiceLine {
  std::atomic<std::uint32_t> sleep_epoch;  // kAsleep, kFenceNeeded, and above them the number of the sleep
  std::atomic<std::uint32_t>
      registration;  // changes when the service ends; a channel compares it with the one that it was opened with
};
inline constexpr std::uint32_t kAsleep = 1;  // the receiver sleeps or is about to
inline constexpr std::uint32_t kFenceNeeded =
    2;  // it sleeps often: senders execute a fence before they check whether it sleeps
inline constexpr std::uint32_t kOneSleep = 4;
inline constexpr std::size_t kStatePageSize = 4096;
inline constexpr std::size_t kServicesPerStatePage = kStatePageSize / sizeof(ServiceLine);

}  // namespace ripc::internal::shm
