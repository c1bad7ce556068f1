// SPDX-License-Identifier: Apache-2.0
#include "resolver/zookeeper/node_record.hpp"

#include <span>

#include "base/group_id.hpp"
#include "base/plain_text.hpp"
#include "base/runtime_directory.hpp"
#include "spi/service_packet.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr std::size_t kHexSize = 16;

std::string hex_text(std::uint64_t number, std::size_t digits) {
  const std::string text = id_text(number);
  return text.substr(text.size() - digits);
}

// Accepts only the form that this file writes, so that each number has one name.
std::uint64_t read_hex(std::string_view text) noexcept { return RuntimeDirectory::number_of(text).value_or(0); }

}  // namespace

std::string service_folder(unsigned number) { return "/s/" + hex_text(number, 2); }

std::string service_path(ripc_service_id id) {
  // IDs that programs choose are often consecutive.
  const std::uint64_t mixed = id * 0x9e3779b97f4a7c15;
  return service_folder(static_cast<unsigned>(mixed >> 56)) + "/" + hex_text(id, kHexSize);
}

std::string group_path(ripc_service_id group) { return "/g/" + hex_text(group, kHexSize); }

std::string member_path(ripc_service_id group, ripc_service_id id, std::uint64_t session) {
  return group_path(group) + "/" + hex_text(id, kHexSize) + "." + hex_text(session, kHexSize);
}

ripc_service_id id_of_service(std::string_view path) noexcept {
  if (!path.starts_with("/s/") || path.size() < kHexSize) return 0;
  const ripc_service_id id = read_hex(path.substr(path.size() - kHexSize));
  return is_group(id) ? 0 : id;
}

ripc_service_id id_of_group(std::string_view path) noexcept {
  if (!path.starts_with("/g/")) return 0;
  const ripc_service_id id = read_hex(path.substr(3));
  return is_group(id) ? id : 0;
}

ripc_service_id id_of_member(std::string_view name) noexcept {
  const ripc_service_id id = read_hex(name.substr(0, kHexSize));
  return is_group(id) ? 0 : id;
}

std::string encode_record(const spi::ServiceRecord& record, std::uint64_t session,
                          const security::Credentials& credentials) {
  spi::PacketHeader header;
  header.type = spi::PacketType::announcement;
  header.context = record.context;
  header.pid = record.pid;
  header.timestamp = session;
  spi::PacketBuilder builder(header, spi::Seal(credentials), spi::kMaxPacket);
  static_cast<void>(builder.add(record, false));
  const std::vector<std::byte> bytes = builder.finish(false, spi::kDirectoryPurpose);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

RecordCheck decode_record(std::string_view text, ripc_service_id id, std::uint64_t owner,
                          const security::Credentials& credentials, const spi::NameHash& hash_name,
                          spi::ServiceRecord& record, spi::Refusals& refusals) {
  const ClusterKeys* const keys = credentials.keys.get();
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text.data(), text.size()));
  spi::PacketHeader header;
  switch (spi::decode_header(bytes, header)) {
    case spi::DecodeStatus::ok:
      break;
    case spi::DecodeStatus::other_version:
      return RecordCheck::other_version;
    case spi::DecodeStatus::malformed:
      return RecordCheck::malformed;
  }
  if (header.is_signed && keys == nullptr) return RecordCheck::signed_one;
  if (keys != nullptr && !(header.is_signed && spi::verify_packet(bytes, *keys, spi::kDirectoryPurpose))) {
    security::Counters::add(credentials.counters->packets_forged);
    return header.is_signed ? RecordCheck::forged : RecordCheck::unsigned_one;
  }
  spi::MulticastPacket packet;
  if (spi::decode_packet(bytes, hash_name, packet) != spi::DecodeStatus::ok ||
      packet.header.type != spi::PacketType::announcement || packet.services.size() != 1 ||
      packet.services[0].is_gone || packet.services[0].record.id != id)
    return RecordCheck::malformed;
  if (!spi::keep_permitted(bytes, packet, credentials, spi::kDirectoryPurpose, refusals)) return RecordCheck::forged;
  if (packet.services.empty()) return refusals.unproven != 0 ? RecordCheck::unproven : RecordCheck::not_permitted;
  if (header.timestamp != owner) return RecordCheck::replayed;
  record = std::move(packet.services[0].record);
  return RecordCheck::good;
}

}  // namespace ripc::internal::resolver
