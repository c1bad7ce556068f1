// SPDX-License-Identifier: Apache-2.0
// Fuzzes the packet decoder: any bytes are either refused or understood, and what is understood encodes to the same
// bytes again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "require.hpp"
#include "wire/packet.hpp"
#include "wire/plain.hpp"

namespace {

using fuzz::require;
using ripc::internal::wire::DecodedItem;
using ripc::internal::wire::Encoder;
using ripc::internal::wire::ItemType;
using ripc::internal::wire::Packet;

bool add_item(Encoder& encoder, const Packet& packet, const DecodedItem& item) {
  switch (item.type) {
    case ItemType::payload:
      return encoder.add_payload(packet.body(item));
    case ItemType::descriptor:
      return encoder.add(packet.descriptor(item));
    case ItemType::returned:
      if (packet.carried(item).empty()) return encoder.add(packet.returned(item));
      require(packet.carried(item).size() == packet.returned(item).length);
      return encoder.add_carried(packet.returned(item).return_index, packet.carried(item));
    case ItemType::directed:
      return encoder.add(packet.directed(item));
    case ItemType::grant:
      return encoder.add(packet.grant(item));
    case ItemType::request:
      return encoder.add_request(packet.number(item));
    case ItemType::reply:
      return encoder.add_reply(packet.number(item));
    case ItemType::handle:
      return encoder.add_handle(packet.number(item));
  }
  return false;
}

void check_items(const Packet& packet, std::span<const std::byte> bytes) {
  std::size_t expected = ripc::internal::wire::packet_size(packet.items().size(), 0);
  for (const DecodedItem& item : packet.items()) {
    require(item.offset == expected);
    expected += item.length;
    require(expected <= bytes.size());
    require(packet.body(item).data() == bytes.data() + item.offset && packet.body(item).size() == item.length);
  }
  require(expected == bytes.size());
}

void check_encodes_again(const Packet& packet, std::span<const std::byte> bytes) {
  Encoder encoder(packet.kind(), packet.tag(), packet.source(),
                  packet.is_unordered() ? ripc::internal::wire::kUnordered : 0);
  for (const DecodedItem& item : packet.items()) require(add_item(encoder, packet, item));
  require(encoder.size() == bytes.size());
  std::vector<std::byte> again;
  for (const std::span<const std::byte> range : encoder.finish()) {
    require(!range.empty());
    again.insert(again.end(), range.begin(), range.end());
  }
  require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

// The fast path, PlainReader, takes exactly those packets that the decoder reads as messages with payload items only.
// Both see the same content.
void check_plain(const Packet* packet, std::span<const std::byte> bytes) {
  const bool is_plain = packet != nullptr && packet->kind() == ripc::internal::wire::PacketKind::message &&
                        std::all_of(packet->items().begin(), packet->items().end(),
                                    [](const DecodedItem& item) { return item.type == ItemType::payload; });
  ripc::internal::wire::PlainReader reader;
  std::size_t index = 0;
  const bool taken =
      reader.read_header(bytes, RIPC_MAX_ITEMS) && reader.visit_items([&](std::size_t offset, std::size_t length) {
        require(offset + length <= reader.body().size());
        if (!is_plain) return;
        const DecodedItem& item = packet->items()[index++];
        require(reader.body().data() + offset == bytes.data() + item.offset && length == item.length);
      });
  require(taken == is_plain);
  if (taken) require(reader.tag() == packet->tag() && reader.source() == packet->source());
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  Packet packet;
  const ripc::internal::Status status = packet.decode(bytes);
  if (!status.ok()) {
    require(packet.items().empty());
    check_plain(nullptr, bytes);
    require(status == RIPC_CORRUPT ||
            (status == RIPC_VERSION_MISMATCH && bytes[0] != std::byte{ripc::internal::wire::kVersion}));
    return 0;
  }
  require(packet.source() != 0);
  check_items(packet, bytes);
  check_encodes_again(packet, bytes);
  check_plain(&packet, bytes);
  require(packet.decode(bytes.first(size - 1)) == RIPC_CORRUPT);  // no packet is the beginning of another
  require(packet.items().empty());
  return 0;
}
