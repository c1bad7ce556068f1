// SPDX-License-Identifier: Apache-2.0
// The choice of a protocol for each item of a message that is sent. An item travels in its packet (short), is pulled by
// the receiver (long), or is written into the request's return buffers. Some choices belong to the transport, which
// knows its path:
//
//   path     choice                                                          made by
//   any      a return buffer: in the packet up to most_carried               Channel::Facts
//   shm      a larger one: written up to 256 KiB, else pulled                ShmSource::push
//   remote   a larger one: pushed; above 1 MiB pulled if there are rails     BulkBackend::is_better_pulled
//   sockets  a packet: by datagram, or by the link's connection              UdpChannel::want_stream_locked
//   sockets  a pulled item: over one rail up to 128 KiB, else over all       RailPace::kUndivided
//   verbs    a pulled item: the same, up to 1 MiB                            RdmaPullTable::pull
//
// The border between a packet and a pull is the largest packet of the path. It does not move while a program runs:
// otherwise the same message would need a window of its receiver today, and none tomorrow.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "core/protocol/send_arguments.hpp"
#include "spi/transport.hpp"
#include "wire/plain.hpp"

namespace ripc::internal::core {

inline spi::Bytes bytes_of(const ripc_item& item) noexcept {
  return {static_cast<const std::byte*>(item.data), item.size};
}

// ---- A message as a whole ------------------------------------------------------------------------------------

// Whether these items make a plain message, which has short items only. Sets `bytes` to their total size.
inline bool is_plain(std::span<const ripc_item> items, std::size_t& bytes) noexcept {
  if (items.size() > RIPC_MAX_ITEMS) [[unlikely]]
    return false;
  for (const ripc_item& item : items) {
    if (item.kind > RIPC_ITEM_SHORT || (item.data == nullptr && item.size != 0) || item.size > wire::kMaxItemBody)
        [[unlikely]]
      return false;
    bytes += item.size;
  }
  return true;
}
// The same; if they do, `message` becomes that message.
inline bool make_plain(ripc_service_id source, std::span<const ripc_item> items, std::uint32_t tag,
                       wire::Plain& message) noexcept {
  std::size_t bytes = 0;
  if (!is_plain(items, bytes)) return false;
  message = {.source = source, .tag = tag, .items = items, .bytes = bytes};
  return true;
}

// RIPC_INVALID_ARGUMENT: no message can be sent with these arguments.
Status check(const SendArguments& arguments);

// Whether it travels as a plain message if it fits, and otherwise as a long one.
bool prefers_plain(const SendArguments& arguments) noexcept;

inline bool has_kind(std::span<const ripc_item> items, std::uint32_t kind) noexcept {
  return std::any_of(items.begin(), items.end(), [kind](const ripc_item& item) { return item.kind == kind; });
}

// The bytes that `items` items may have together in a packet of at most `limit` bytes.
constexpr std::size_t room_for_items(std::size_t limit, std::size_t items) noexcept {
  return limit - std::min(limit, wire::packet_size(items, 0));
}

// The error for a packet of `size` bytes to a peer that takes `limit`.
Status too_large(std::size_t size, std::size_t limit);
// The same for a packet of these items and nothing else.
Status too_large(std::span<const ripc_item> items, std::size_t limit);

// ---- Item by item --------------------------------------------------------------------------------------------

enum class Protocol : std::uint8_t {
  payload,   // in the packet
  carried,   // in the packet, to be copied into a return buffer
  exposed,   // pulled by the receiver, into a window
  returned,  // written into a return buffer already
  directed,  // pulled by the receiver, into a return buffer
};

// How each item of one message travels.
class ItemPlan {
 public:
  // Chooses which items travel in a packet of at most `limit` bytes. AUTO and RETURN items leave the packet, the
  // largest first, until it has at most `auto_limit` bytes, or none of them is left. RETURN items above `most_carried`
  // are never in it. RIPC_TOO_LARGE: the rest does not fit.
  Status choose(std::span<const ripc_item> items, std::size_t returns, std::size_t limit, std::size_t auto_limit,
                std::size_t most_carried);
  // For a reply: decides how each RETURN item travels, and writes those that do not travel in the packet. With
  // !may_write, nothing is written into a return buffer.
  void choose_returns(std::span<const ripc_item> items, const Message& request, bool may_write);

  // Whether choose_returns() has written into a return buffer.
  bool has_written() const noexcept { return has_written_; }

  // The size of the packet in bytes, at most.
  std::size_t packet_size() const noexcept { return packet_size_; }

  bool is_pulled(std::size_t index) const noexcept {
    return protocols_[index] == Protocol::exposed || protocols_[index] == Protocol::directed;
  }

  struct Encoded {
    bool ok = true;  // false: they are too many
    std::size_t short_bytes = 0;
    std::size_t pulled = 0;
    std::size_t returned = 0;
  };
  // `descriptors`: those of the items to be pulled, in order.
  Encoded encode(std::span<const ripc_item> items, std::span<const wire::Descriptor> descriptors,
                 wire::Encoder& encoder) const noexcept;

 private:
  std::array<Protocol, RIPC_MAX_ITEMS> protocols_;
  std::size_t packet_size_ = 0;
  bool has_written_ = false;
};

}  // namespace ripc::internal::core
