// SPDX-License-Identifier: Apache-2.0
// Fuzzes how the trust file judges packets. In a packet as it comes, only what a member signed is believed. A member
// that signs the same content gets the rights that the file gives it, and nothing else.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/service_id.hpp"
#include "require.hpp"
#include "spi/record_rights.hpp"

namespace {

using fuzz::require;
using ripc::internal::Result;
using ripc::internal::Status;
namespace core = ripc::internal::core;
namespace security = ripc::internal::security;
namespace spi = ripc::internal::spi;

// The member alice, and the trust file that names her.
const security::Credentials& alice() {
  static const security::Credentials kAlice = [] {
    security::Credentials made;
    made.identity = *security::Identity::parse(
        "secret ed25519:0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20\n", "the fuzzer");
    const std::string text = "alice " + security::public_key_text(made.identity->public_key()) + " holds=b*\n";
    made.trust = std::make_shared<security::TrustFile>(*security::Trust::parse(
        text, "the fuzzer", {.service_id = core::id_of_name, .group_id = core::id_of_group, .signer = {}}));
    return made;
  }();
  return kAlice;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  spi::MulticastPacket packet;
  if (spi::decode_packet(bytes, core::id_of_name, packet) != spi::DecodeStatus::ok) return 0;
  require(packet.signer.has_value() == packet.header.has_signer);
  const std::size_t count = packet.services.size();
  spi::PacketHeader header = packet.header;
  std::vector<spi::PacketService> services = packet.services;
  spi::Refusals refusals;
  const bool is_genuine = spi::keep_permitted(bytes, packet, alice(), spi::kMulticastPurpose, refusals);
  if (is_genuine && !packet.header.has_signer) require(packet.services.empty() && refusals.unproven == count);
  if (!is_genuine) require(packet.header.has_signer);

  if (!fuzz::is_one_in(64, {data, size})) return 0;  // a signature takes as long as some hundred packets
  spi::PacketBuilder builder(header, spi::Seal(alice()), spi::kMaxPacket);
  for (const spi::PacketService& service : services) {
    if (!builder.add(service.record, service.is_gone)) return 0;
  }
  const std::vector<std::byte> sealed = builder.finish();
  require(spi::decode_packet(sealed, core::id_of_name, packet) == spi::DecodeStatus::ok);
  refusals = {};
  require(spi::keep_permitted(sealed, packet, alice(), spi::kMulticastPurpose, refusals));
  require(refusals.unproven == 0);
  for (const spi::PacketService& service : packet.services) {
    require(service.record.member == "alice" && service.record.groups.empty());
    if (service.is_gone) continue;
    require(service.record.name.empty() ? service.record.id >> 62 == 3 : service.record.name.front() == 'b');
  }
  return 0;
}
