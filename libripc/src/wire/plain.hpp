// SPDX-License-Identifier: Apache-2.0
// Plain packets, as nearly all are: a message with payload items only, at most RIPC_MAX_ITEMS of them. They have the
// same bytes as Encoder writes and Packet reads (wire/packet.hpp), without the detour through a list of ranges. They
// are written directly to where they travel, and read directly from there, even while the peer may be changing them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/copy.hpp"
#include "base/group_id.hpp"
#include "ripc/ripc.h"
#include "wire/bytes.hpp"
#include "wire/packet.hpp"

namespace ripc::internal::wire {

// The contents of a plain message. `items` are RIPC_ITEM_SHORT or RIPC_ITEM_AUTO, at most RIPC_MAX_ITEMS. The data of
// an item with a size is not null, and no item is larger than kMaxItemBody.
struct Plain {
  std::uint64_t source = 0;
  std::uint32_t tag = 0;
  std::span<const ripc_item> items;
  std::size_t bytes = 0;  // of all items

  std::size_t packet_size() const noexcept { return wire::packet_size(items.size(), bytes); }
};

// Writes the header of a message with this many items to `to`, and returns its end.
inline std::byte* write_plain_header(const Plain& plain, std::size_t items, std::byte* to) noexcept {
  store_le<std::uint64_t>(to, first_word(PacketKind::message, plain.tag) | std::uint64_t{items} << 24);
  store_le<std::uint64_t>(to + 8, plain.source);
  return to + kHeaderSize;
}

// Writes header and table to `to`, which has room for them, and returns their end.
inline std::byte* write_plain_head(const Plain& plain, std::byte* to) noexcept {
  to = write_plain_header(plain, plain.items.size(), to);
  for (const ripc_item& item : plain.items) {
    store_le<std::uint32_t>(to, static_cast<std::uint32_t>(item.size));
    to += kTableEntrySize;
  }
  return to;
}

// Writes the packet to `to`, which has room for plain.packet_size() bytes. That size is at most Most.
template <std::size_t Most = SIZE_MAX>
[[gnu::always_inline]] inline void write_plain(const Plain& plain, std::byte* to) noexcept {
  // The compiler must assume that the bytes written could overlap the message itself.
  const std::span<const ripc_item> items = plain.items;
  std::byte* table = write_plain_header(plain, items.size(), to);
  std::byte* body = table + items.size() * kTableEntrySize;
  for (const ripc_item& item : items) {
    const std::size_t size = item.size;
    const auto* data = static_cast<const std::byte*>(item.data);
    store_le<std::uint32_t>(table, static_cast<std::uint32_t>(size));
    table += kTableEntrySize;
    copy_small<Most>(body, data, size);
    body += size;
  }
}

// The same for one item: nearly every message has one. The first `First` bytes of `to` are in one cache line, the
// others in later ones. It writes the later lines first, each byte once, and ends with the beginning. A receiver that
// polls the first line takes it away between two writes to it. So no fetch of another line may come between those
// writes.
template <std::size_t Most, std::size_t First>
[[gnu::always_inline]] inline void write_single(const Plain& plain, std::byte* to) noexcept {
  constexpr std::size_t kHead = packet_size(1, 0);
  constexpr std::size_t kFirst = First - kHead;
  const auto* data = static_cast<const std::byte*>(plain.items.front().data);
  if (plain.bytes > kFirst) {
    copy_small<Most - First>(to + First, data + kFirst, plain.bytes - kFirst);
    copy_small(to + kHead, data, kFirst);
  } else {
    copy_small<kFirst>(to + kHead, data, plain.bytes);
  }
  store_le<std::uint32_t>(to + kHeaderSize, static_cast<std::uint32_t>(plain.bytes));
  write_plain_header(plain, 1, to);
}

// A plain message of one item, read while the peer may be changing it.
struct Single {
  std::uint32_t tag;
  std::uint64_t source;
  std::span<const std::byte> body;
};

// True for a message of at most Most bytes from `known`, a source that PlainReader has approved before (0: none). Else
// PlainReader has to look at it.
template <std::size_t Most>
[[gnu::always_inline]] inline bool read_single(std::span<const std::byte> packet, std::uint64_t known,
                                               Single& single) noexcept {
  static_assert(Most <= kMaxItemBody);
  constexpr std::size_t kHead = packet_size(1, 0);
  // Of a packet that is too short for its head, this is a very large number.
  const std::size_t length = packet.size() - kHead;
  if (length > Most) return false;
  const auto word = load_once_le<std::uint64_t>(packet.data());
  const auto source = load_once_le<std::uint64_t>(packet.data() + 8);
  const auto entry = load_once_le<std::uint32_t>(packet.data() + kHeaderSize);
  single = {static_cast<std::uint32_t>(word >> 32), source, packet.subspan(kHead)};
  return static_cast<std::uint32_t>(word) == (first_word(PacketKind::message, 0) | 1u << 24) && entry == length &&
         source == known && source != 0;
}

// Adds the same items for transports that send a list of ranges. `encoder` was made with the message's tag and source.
// False: it has no room for an item.
inline bool add_items(const Plain& plain, Encoder& encoder) noexcept {
  return std::all_of(plain.items.begin(), plain.items.end(), [&](const ripc_item& item) {
    return encoder.add_payload({static_cast<const std::byte*>(item.data), item.size});
  });
}

// Whether a packet, which the peer may be changing, says that it is an unordered message.
inline bool is_unordered(std::span<const std::byte> packet) noexcept {
  return packet.size() >= kHeaderSize && (load_once_le<std::uint64_t>(packet.data()) >> 16 & kUnordered) != 0;
}

// Reads a packet that the peer may be changing meanwhile. Every byte of the header and the table is read once.
class PlainReader {
 public:
  // Reads the header. False if this is no plain message, or has more than `most_items` items: Packet::decode() of a
  // copy has to look at it.
  bool read_header(std::span<const std::byte> packet, std::size_t most_items) noexcept {
    if (packet.size() < kHeaderSize) return false;
    const auto word = load_once_le<std::uint64_t>(packet.data());
    source_ = load_once_le<std::uint64_t>(packet.data() + 8);
    count_ = static_cast<std::uint8_t>(word >> 24);
    tag_ = static_cast<std::uint32_t>(word >> 32);
    table_ = packet.data() + kHeaderSize;
    const std::size_t head = packet_size(count_, 0);
    const std::uint64_t start = word & 0xffffffU;
    if ((start != first_word(PacketKind::message, 0) && start != first_word(PacketKind::message, 0, kUnordered)) ||
        count_ > most_items || count_ > RIPC_MAX_ITEMS || source_ == 0 || is_group(source_) || head > packet.size())
      return false;
    body_ = packet.subspan(head);
    return true;
  }

  std::size_t count() const noexcept { return count_; }
  std::uint32_t tag() const noexcept { return tag_; }
  std::uint64_t source() const noexcept { return source_; }
  // The items' bytes, one after the other.
  std::span<const std::byte> body() const noexcept { return body_; }

  // Calls visit(offset, length) for each item, with the offset in the body. False, perhaps after some visits: an item
  // is not payload, or the lengths do not add up to the body.
  template <typename Visit>
  bool visit_items(Visit&& visit) const noexcept {
    std::size_t offset = 0;
    for (std::size_t index = 0; index < count_; ++index) {
      const auto entry = load_once_le<std::uint32_t>(table_ + index * kTableEntrySize);
      if (entry > kMaxItemBody || entry > body_.size() - offset) return false;
      visit(offset, std::size_t{entry});
      offset += entry;
    }
    return offset == body_.size();
  }

 private:
  std::size_t count_ = 0;
  std::uint32_t tag_ = 0;
  std::uint64_t source_ = 0;
  const std::byte* table_ = nullptr;
  std::span<const std::byte> body_;
};

}  // namespace ripc::internal::wire
