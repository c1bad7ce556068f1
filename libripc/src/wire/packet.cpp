// SPDX-License-Identifier: Apache-2.0
#include "wire/packet.hpp"

#include <limits>

#include "base/group_id.hpp"

namespace ripc::internal::wire {

namespace {

// Sizes of the bodies by item type. Payload has any size, and returned may have more.
constexpr std::array<std::uint32_t, 8> kBodySizes = {
    0,          kDescriptorSize,       kReturnedSize,         kDirectedSize,
    kGrantSize, sizeof(std::uint64_t), sizeof(std::uint64_t), sizeof(std::uint64_t)};

bool is_body_size(std::uint32_t type, std::uint32_t length) noexcept {
  return length == kBodySizes[type] ||
         (type == static_cast<std::uint32_t>(ItemType::returned) && length > kReturnedSize);
}

void store_descriptor(std::byte* bytes, const Descriptor& descriptor) noexcept {
  store_le<std::uint64_t>(bytes, descriptor.key);
  store_le<std::uint64_t>(bytes + 8, descriptor.location);
  store_le<std::uint64_t>(bytes + 16, descriptor.length);
}

// How many items of each type a packet has, a byte for each: no packet has more than 255 items.
class TypeCounts {
 public:
  void add(std::uint32_t type) noexcept { counts_ += std::uint64_t{1} << (8 * type); }
  std::size_t of(ItemType type) const noexcept {
    return static_cast<std::size_t>(counts_ >> (8 * static_cast<unsigned>(type)) & 0xff);
  }
  bool only_payload() const noexcept { return counts_ >> 8 == 0; }

 private:
  std::uint64_t counts_ = 0;
};
static_assert(kMaxPacketItems <= 255);

bool is_sound_message(const TypeCounts& counts, std::size_t items) noexcept {
  if (counts.only_payload()) return items <= RIPC_MAX_ITEMS;
  const std::size_t requests = counts.of(ItemType::request);
  const std::size_t replies = counts.of(ItemType::reply);
  const std::size_t grants = counts.of(ItemType::grant);
  if (counts.of(ItemType::handle) != 0 || requests > 1 || replies > 1) return false;
  if (grants > RIPC_MAX_RETURNS || (grants != 0 && requests == 0)) return false;
  return items - requests - replies - grants <= RIPC_MAX_ITEMS;
}

bool is_sound_notification(const TypeCounts& counts, std::size_t items, const DecodedItem& first) noexcept {
  return items != 0 && items - 1 <= RIPC_MAX_ITEMS && first.type == ItemType::handle &&
         counts.of(ItemType::payload) == items - 1;
}

}  // namespace

// ---- Encoder -------------------------------------------------------------------------------------------------

template <typename Store>
bool Encoder::add_fixed(ItemType type, std::size_t size, const Store& store) noexcept {
  if (count_ == kMaxPacketItems) return false;
  std::byte* body = fixed_.data() + kHeadCapacity + fixed_used_;
  add_entry(type, size);
  fixed_used_ += size;
  store(body);
  Range& last = ranges_[range_count_ - 1];
  if (range_count_ == 1) {
    leading_ += size;
  } else if (last.data() + last.size() == body) {
    last = Range(last.data(), last.size() + size);
  } else {
    std::construct_at(&ranges_[range_count_++], body, size);
  }
  return true;
}

bool Encoder::add_number(ItemType type, std::uint64_t number) noexcept {
  return add_fixed(type, sizeof(number), [&](std::byte* body) { store_le<std::uint64_t>(body, number); });
}

bool Encoder::add(const Descriptor& descriptor) noexcept {
  return add_fixed(ItemType::descriptor, kDescriptorSize, [&](std::byte* body) { store_descriptor(body, descriptor); });
}

bool Encoder::add(const Grant& grant) noexcept {
  return add_fixed(ItemType::grant, kGrantSize, [&](std::byte* body) {
    store_descriptor(body, {grant.key, grant.location, grant.length});
  });
}

bool Encoder::add(const Returned& returned) noexcept {
  return add_fixed(ItemType::returned, kReturnedSize, [&](std::byte* body) {
    store_le<std::uint32_t>(body, returned.return_index);
    store_le<std::uint64_t>(body + 4, returned.length);
  });
}

bool Encoder::add_carried(std::uint32_t return_index, std::span<const std::byte> bytes) noexcept {
  // Keep a range for each item still to come.
  if (range_count_ + 1 + (kMaxPacketItems - count_) > ranges_.size()) return false;
  if (bytes.size() > kMaxItemBody - kReturnedSize) return false;
  if (!add(Returned{return_index, bytes.size()})) return false;
  if (bytes.empty()) return true;
  --count_;
  body_size_ -= kReturnedSize;
  add_entry(ItemType::returned, kReturnedSize + bytes.size());
  std::construct_at(&ranges_[range_count_++], bytes);
  return true;
}

bool Encoder::add(const Directed& directed) noexcept {
  return add_fixed(ItemType::directed, kDirectedSize, [&](std::byte* body) {
    store_le<std::uint32_t>(body, directed.return_index);
    store_descriptor(body + 4, directed.descriptor);
  });
}

bool Encoder::add_request(std::uint64_t request) noexcept { return add_number(ItemType::request, request); }
bool Encoder::add_reply(std::uint64_t request) noexcept { return add_number(ItemType::reply, request); }
bool Encoder::add_handle(std::uint64_t handle) noexcept { return add_number(ItemType::handle, handle); }

// The head's size is known only at the end, so it is written apart and copied to where it touches the first body.
const std::byte* Encoder::join_leading(std::size_t head_size) noexcept {
  std::byte* start = fixed_.data() + kHeadCapacity - head_size;
  std::memcpy(start, head_.data(), head_size);
  return start;
}

// ---- Packet --------------------------------------------------------------------------------------------------

Status Packet::decode(std::span<const std::byte> bytes) noexcept {
  count_ = 0;
  const std::size_t size = bytes.size();
  // The version comes first: another version may have another header.
  if (size != 0 && bytes[0] != std::byte{kVersion}) return RIPC_VERSION_MISMATCH;
  if (size < kHeaderSize || size > std::numeric_limits<std::uint32_t>::max()) return RIPC_CORRUPT;

  const std::byte* const start = bytes.data();
  const auto kind = std::to_integer<std::uint8_t>(start[1]);
  const auto flags = std::to_integer<std::uint8_t>(start[2]);
  const auto items = std::to_integer<std::size_t>(start[3]);
  const auto source = load_le<std::uint64_t>(start + 8);
  const bool is_message = kind == static_cast<std::uint8_t>(PacketKind::message);
  if (!is_message && kind != static_cast<std::uint8_t>(PacketKind::notification)) return RIPC_CORRUPT;
  if ((flags & ~(is_message ? kUnordered : 0)) != 0 || source == 0 || is_group(source) || items > kMaxPacketItems)
    return RIPC_CORRUPT;

  // 64 bits hold the sum of all lengths in a table, and a sum that exceeds 32 bits is larger than any packet.
  std::uint64_t offset = packet_size(items, 0);
  if (offset > size) return RIPC_CORRUPT;
  TypeCounts counts;
  for (std::size_t index = 0; index < items; ++index) {
    const auto entry = load_le<std::uint32_t>(start + kHeaderSize + index * kTableEntrySize);
    const std::uint32_t type = entry >> 28;
    const std::uint32_t length = entry & kMaxItemBody;
    if (type != 0 && (type >= kBodySizes.size() || !is_body_size(type, length))) return RIPC_CORRUPT;
    counts.add(type);
    items_[index] = DecodedItem{static_cast<ItemType>(type), static_cast<std::uint32_t>(offset), length};
    offset += length;
  }
  if (offset != size) return RIPC_CORRUPT;
  if (!(is_message ? is_sound_message(counts, items) : is_sound_notification(counts, items, items_[0]))) {
    return RIPC_CORRUPT;
  }

  bytes_ = bytes;
  std::size_t carrying = 0;
  for (std::size_t index = 0; counts.of(ItemType::returned) != 0 && index < items; ++index) {
    if (items_[index].type != ItemType::returned || carried(items_[index]).empty()) continue;
    if (carried(items_[index]).size() != returned(items_[index]).length) return RIPC_CORRUPT;
    if (++carrying > RIPC_MAX_RETURNS) return RIPC_CORRUPT;
  }
  count_ = items;
  kind_ = static_cast<PacketKind>(kind);
  is_unordered_ = flags != 0;
  tag_ = load_le<std::uint32_t>(start + 4);
  source_ = source;
  return RIPC_OK;
}

}  // namespace ripc::internal::wire
