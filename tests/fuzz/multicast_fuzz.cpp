// SPDX-License-Identifier: Apache-2.0
// Fuzzes the decoder of the multicast resolver's packets. Accepted packets keep every rule of docs/wire.md, and stay
// the same when it is written and read again.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/plain_text.hpp"
#include "core/service_id.hpp"
#include "require.hpp"
#include "spi/holder_rules.hpp"
#include "spi/service_packet.hpp"

namespace {

using fuzz::require;
using namespace ripc::internal::spi;  // NOLINT: this program is about nothing else

void check(const MulticastPacket& packet) {
  require(packet.header.context != 0 && packet.header.timestamp != 0);
  require(!packet.header.is_probe || !ripc::internal::is_group(packet.header.id));
  require((packet.header.nonce == 0) == (packet.header.type == PacketType::announcement));
  require(packet.services.size() <= kMaxPacketServices);
  for (const PacketService& service : packet.services) {
    const ripc::internal::spi::ServiceRecord& record = service.record;
    require(record.id != 0 && record.incarnation != 0 && record.incarnation <= ripc::internal::spi::kMaxIncarnation);
    require(record.context == packet.header.context && record.pid == packet.header.pid);
    require(service.is_gone == record.addresses.empty());
    require(!ripc::internal::is_group(record.id) && ripc::internal::is_group_list(record.groups));
    require(!service.is_gone || record.groups.empty());
    require(record.name.empty() || ripc::internal::core::id_of_name(record.name).ok());
    if (record.id >> 62 == 2 && !service.is_gone) require(*ripc::internal::core::id_of_name(record.name) == record.id);
    for (const ripc::internal::spi::Address& address : record.addresses)
      require(!address.transport.empty() && !address.locator.empty() && ripc::internal::is_plain_text(address.locator));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  PacketHeader header;
  const DecodeStatus status = decode_header(bytes, header);
  MulticastPacket packet;
  const DecodeStatus whole = decode_packet(bytes, ripc::internal::core::id_of_name, packet);
  if (status != DecodeStatus::ok) require(whole == status);
  if (whole != DecodeStatus::ok) return 0;
  require(packet.signer.has_value() == header.has_signer);
  check(packet);
  // Writes the packet again, unsigned. Unused and repeated addresses are left out.
  PacketHeader plain = packet.header;
  plain.is_signed = false;
  PacketBuilder builder(plain, {}, kMaxPacket);
  for (const PacketService& service : packet.services) {
    if (!builder.add(service.record, service.is_gone)) return 0;
  }
  MulticastPacket again;
  require(decode_packet(builder.finish(), ripc::internal::core::id_of_name, again) == DecodeStatus::ok);
  require(again.services.size() == packet.services.size());
  for (std::size_t i = 0; i < again.services.size(); ++i) {
    require(again.services[i].is_gone == packet.services[i].is_gone);
    require(again.services[i].record.id == packet.services[i].record.id);
    require(again.services[i].record.name == packet.services[i].record.name);
    require(again.services[i].record.addresses == packet.services[i].record.addresses);
    require(again.services[i].record.groups == packet.services[i].record.groups);
  }
  return 0;
}
