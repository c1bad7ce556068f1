// SPDX-License-Identifier: Apache-2.0
// The packet: the one encoding of messages, replies and notifications on every transport. docs/wire.md is its
// specification; the decoder trusts nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.hpp"
#include "wire/bytes.hpp"

namespace ripc::internal::wire {

inline constexpr std::uint8_t kVersion = 3;
inline constexpr std::size_t kHeaderSize = 16;
inline constexpr std::size_t kTableEntrySize = 4;
// Items of one packet: RIPC_MAX_ITEMS of the application (payload, descriptor, returned, directed) and RIPC_MAX_RETURNS
// grants. One request and one reply item come on top, because a reply may attach return buffers of its own.
inline constexpr std::size_t kMaxPacketItems = RIPC_MAX_ITEMS + RIPC_MAX_RETURNS + 2;
inline constexpr std::uint32_t kMaxItemBody = (1u << 28) - 1;

enum class PacketKind : std::uint8_t { message = 1, notification = 2 };

// The flag of a message that is delivered as soon as it is complete, even out of order.
inline constexpr std::uint8_t kUnordered = 1;

enum class ItemType : std::uint8_t {
  payload = 0,     // any length: a short item
  descriptor = 1,  // Descriptor: a long item to be pulled
  returned = 2,    // Returned: an item that is already in a return buffer, or whose bytes follow
  directed = 3,    // Directed: a long item to be pulled into a return buffer
  grant = 4,       // Grant: a return buffer attached by the sender
  request = 5,     // u64 request id; the message carries grants
  reply = 6,       // u64 request id that this message answers
  handle = 7,      // u64 notification handle; first item of a notification
};

// A range of the sender's memory, exposed for one transfer. key and location belong to the transport.
struct Descriptor {
  std::uint64_t key;
  std::uint64_t location;
  std::uint64_t length;
  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};
inline constexpr std::size_t kDescriptorSize = 24;

// A range of the requester's memory that the reply may write.
struct Grant {
  std::uint64_t key;
  std::uint64_t location;
  std::uint64_t length;
  friend bool operator==(const Grant&, const Grant&) = default;
};
inline constexpr std::size_t kGrantSize = 24;

// Followed by as many bytes if they are carried, else by nothing: then they were written.
struct Returned {
  std::uint32_t return_index;
  std::uint64_t length;
  friend bool operator==(const Returned&, const Returned&) = default;
};
inline constexpr std::size_t kReturnedSize = 12;

struct Directed {
  std::uint32_t return_index;
  Descriptor descriptor;
  friend bool operator==(const Directed&, const Directed&) = default;
};
inline constexpr std::size_t kDirectedSize = 28;

// ---- Encoding ------------------------------------------------------------------------------------------------

// Size of a packet with this many items, whose bodies have `body` bytes in total.
constexpr std::size_t packet_size(std::size_t items, std::size_t body) noexcept {
  return kHeaderSize + items * kTableEntrySize + body;
}

// The first eight bytes of a packet, without the count of its items, which is inserted at bit 24.
constexpr std::uint64_t first_word(PacketKind kind, std::uint32_t tag, std::uint8_t flags = 0) noexcept {
  return kVersion | std::uint64_t{static_cast<std::uint8_t>(kind)} << 8 | std::uint64_t{flags} << 16 |
         std::uint64_t{tag} << 32;
}

// Writes the header, the table and the bodies of all items that are not payload. A transport sends the list of ranges
// that finish() returns: encoder-owned bytes and the caller's payload, in order. It copies no payload and allocates
// nothing. An Encoder is used for one packet, by one thread; the ranges are valid while it and the payload live. It
// leaves checks of the whole packet, such as for grants without a request, to the decoder.
class Encoder {
 public:
  Encoder(PacketKind kind, std::uint32_t tag, std::uint64_t source, std::uint8_t flags = 0) noexcept
      : first_word_(first_word(kind, tag, flags)) {
    store_le<std::uint64_t>(head_.data() + 8, source);
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // Each returns false, and adds nothing, when the packet would hold more than kMaxPacketItems items or an item exceeds
  // kMaxItemBody.
  bool add_payload(std::span<const std::byte> bytes) noexcept {
    if (count_ == kMaxPacketItems || bytes.size() > kMaxItemBody) return false;
    add_entry(ItemType::payload, bytes.size());
    if (!bytes.empty()) std::construct_at(&ranges_[range_count_++], bytes);
    return true;
  }
  bool add(const Descriptor& descriptor) noexcept;
  bool add(const Grant& grant) noexcept;
  bool add(const Returned& returned) noexcept;
  // Also false when the packet already carries bytes for RIPC_MAX_RETURNS buffers.
  bool add_carried(std::uint32_t return_index, std::span<const std::byte> bytes) noexcept;
  bool add(const Directed& directed) noexcept;
  bool add_request(std::uint64_t request) noexcept;
  bool add_reply(std::uint64_t request) noexcept;
  bool add_handle(std::uint64_t handle) noexcept;

  std::size_t size() const noexcept { return packet_size(count_, body_size_); }  // of the whole packet

  // Header and table come first, then the bodies. Adjacent encoder-owned bytes are one range, even those right after
  // the table. No range is empty. Nothing may be added afterwards.
  std::span<const std::span<const std::byte>> finish() noexcept {
    store_le<std::uint64_t>(head_.data(), first_word_ | std::uint64_t{count_} << 24);
    const std::size_t head_size = packet_size(count_, 0);
    const std::byte* head = head_.data();
    if (leading_ != 0) head = join_leading(head_size);
    std::construct_at(ranges_.data(), head, head_size + leading_);
    return {ranges_.data(), range_count_};
  }

 private:
  using Range = std::span<const std::byte>;
  static constexpr std::size_t kHeadCapacity = kHeaderSize + kMaxPacketItems * kTableEntrySize;

  void add_entry(ItemType type, std::size_t length) noexcept {
    store_le<std::uint32_t>(head_.data() + kHeaderSize + count_ * kTableEntrySize,
                            static_cast<std::uint32_t>(type) << 28 | static_cast<std::uint32_t>(length));
    ++count_;
    body_size_ += length;
  }
  // Adds an item whose body store(bytes) writes. False: no room.
  template <typename Store>
  bool add_fixed(ItemType type, std::size_t size, const Store& store) noexcept;
  bool add_number(ItemType type, std::uint64_t number) noexcept;
  const std::byte* join_leading(std::size_t head_size) noexcept;

  // One range for the head, one for each item, and one more for each item whose bytes are carried to a return buffer.
  static constexpr std::size_t kMaxRanges = 1 + kMaxPacketItems + RIPC_MAX_RETURNS;

  // The arrays stay uninitialised: only what is written is ever read, and the first cache lines serve small packets.
  std::uint64_t first_word_;  // of the header; the count of items comes in last
  std::size_t count_ = 0;
  std::size_t body_size_ = 0;    // of all items
  std::size_t range_count_ = 1;  // the first is the head's
  std::size_t fixed_used_ = 0;
  std::size_t leading_ = 0;  // fixed-size bodies that come before any payload, and so join the head's range
  std::array<std::byte, kHeadCapacity> head_;
  union {  // a union only because a span's default constructor would clear each of them
    std::array<Range, kMaxRanges> ranges_;
  };
  // The fixed-size bodies, behind room for the head.
  std::array<std::byte, kHeadCapacity + kMaxPacketItems * kDirectedSize> fixed_;
};

// ---- Decoding ------------------------------------------------------------------------------------------------

struct DecodedItem {
  ItemType type;
  std::uint32_t offset;  // of the body, from the packet's first byte
  std::uint32_t length;
};

// A checked view of a packet's bytes. The bytes must not change any more (copy them out of shared memory first) and
// must outlive the Packet. One thread at a time; decode() may be called again, for other bytes.
class Packet {
 public:
  Packet() noexcept {}  // NOLINT(modernize-use-equals-default): then Packet{} would clear items_

  // RIPC_VERSION_MISMATCH for another version. RIPC_CORRUPT for any other fault that docs/wire.md lists. After a
  // failure there are no items, and the other values mean nothing. Never allocates. The caller checks what the numbers
  // in the items mean.
  Status decode(std::span<const std::byte> bytes) noexcept;

  std::size_t size() const noexcept { return bytes_.size(); }
  PacketKind kind() const noexcept { return kind_; }
  bool is_unordered() const noexcept { return is_unordered_; }
  std::uint32_t tag() const noexcept { return tag_; }
  std::uint64_t source() const noexcept { return source_; }
  std::span<const DecodedItem> items() const noexcept { return {items_.data(), count_}; }
  std::span<const std::byte> body(const DecodedItem& item) const noexcept {
    return bytes_.subspan(item.offset, item.length);
  }
  // For items of the matching type only.
  Descriptor descriptor(const DecodedItem& item) const noexcept { return descriptor_at(item.offset); }
  Grant grant(const DecodedItem& item) const noexcept {
    return {u64(item.offset), u64(item.offset + 8), u64(item.offset + 16)};
  }
  Returned returned(const DecodedItem& item) const noexcept {
    return {u32(item.offset), u64(std::size_t{item.offset} + 4)};
  }
  // The bytes of a returned item; none if they were written.
  std::span<const std::byte> carried(const DecodedItem& item) const noexcept {
    return body(item).subspan(kReturnedSize);
  }
  Directed directed(const DecodedItem& item) const noexcept {
    return {u32(item.offset), descriptor_at(std::size_t{item.offset} + 4)};
  }
  std::uint64_t number(const DecodedItem& item) const noexcept { return u64(item.offset); }  // request, reply, handle

 private:
  std::uint32_t u32(std::size_t offset) const noexcept { return load_le<std::uint32_t>(bytes_.data() + offset); }
  std::uint64_t u64(std::size_t offset) const noexcept { return load_le<std::uint64_t>(bytes_.data() + offset); }
  Descriptor descriptor_at(std::size_t offset) const noexcept {
    return {u64(offset), u64(offset + 8), u64(offset + 16)};
  }

  std::span<const std::byte> bytes_;
  std::size_t count_ = 0;
  PacketKind kind_ = PacketKind::message;
  bool is_unordered_ = false;
  std::uint32_t tag_ = 0;
  std::uint64_t source_ = 0;
  std::array<DecodedItem, kMaxPacketItems> items_;  // uninitialised beyond count_
};

}  // namespace ripc::internal::wire
