// SPDX-License-Identifier: Apache-2.0
#include "spi/service_packet.hpp"

#include <algorithm>

#include "base/group_id.hpp"
#include "base/plain_text.hpp"
#include "spi/holder_rules.hpp"
#include "wire/bytes.hpp"

namespace ripc::internal::spi {
namespace {

constexpr std::uint8_t kSignedFlag = 1;
constexpr std::uint8_t kProbeFlag = 2;
constexpr std::uint8_t kLastFlag = 4;
constexpr std::uint8_t kSignerFlag = 8;
constexpr unsigned kAllFlags = 15;
constexpr std::size_t kHeaderSize = 56;
constexpr std::size_t kAddressOverhead = 3;
constexpr std::size_t kServiceOverhead = 20;

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t size_of(const Address& address) noexcept {
  return kAddressOverhead + address.transport.size() + address.locator.size();
}

bool is_transport(std::string_view text) noexcept {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= kMaxTransportSize && std::all_of(text.begin(), text.end(), is_plain);
}

bool is_locator(std::string_view text) noexcept {
  return !text.empty() && text.size() <= kMaxLocatorSize && is_plain_text(text);
}

// An ID that was made from a name must come with that name: no one can claim it under another name.
bool is_name_of(std::string_view name, ripc_service_id id, const NameHash& hash_name) {
  const bool must_have_name = is_named(id);
  if (name.empty()) return !must_have_name;
  const Result<ripc_service_id> hash = hash_name(name);
  return hash.ok() && (!must_have_name || *hash == id);
}

std::uint8_t flags_of(const PacketHeader& header) noexcept {
  return static_cast<std::uint8_t>((header.is_signed ? kSignedFlag : 0) | (header.is_probe ? kProbeFlag : 0) |
                                   (header.is_last ? kLastFlag : 0) | (header.has_signer ? kSignerFlag : 0));
}

std::size_t seal_size(const PacketHeader& header) noexcept {
  return (header.is_signed ? ClusterKeys::kMacSize : 0) + (header.has_signer ? Seal::kSignatureSize : 0);
}

bool is_valid(const PacketHeader& header) noexcept {
  if (header.context == 0 || header.timestamp == 0) return false;
  switch (header.type) {
    case PacketType::question:
      if (header.is_last || header.nonce == 0) return false;
      if (header.is_probe && (header.id == 0 || is_group(header.id))) return false;
      return header.is_probe ? header.number <= kMaxIncarnation : header.number == 0;
    case PacketType::reply:
      return !header.is_probe && header.nonce != 0 && header.number <= 0xffff;
    case PacketType::announcement:
      return !header.is_probe && !header.is_last && header.nonce == 0 && header.id == 0 && header.number == 0;
  }
  return false;
}

bool read_addresses(wire::Reader& reader, std::size_t count, std::vector<Address>& addresses) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto transport_size = reader.read<std::uint8_t>();
    const auto locator_size = reader.read<std::uint16_t>();
    const std::string_view transport = text_of(reader.take(transport_size));
    const std::string_view locator = text_of(reader.take(locator_size));
    if (!reader.ok() || !is_transport(transport) || !is_locator(locator)) return false;
    addresses.push_back({std::string(transport), std::string(locator)});
    if (!is_for_records(addresses.back())) return false;
  }
  return true;
}

bool read_service(wire::Reader& reader, const std::vector<Address>& addresses, const PacketHeader& header,
                  const NameHash& hash_name, PacketService& service) {
  ServiceRecord& record = service.record;
  record.id = reader.read<std::uint64_t>();
  record.incarnation = reader.read<std::uint64_t>();
  const auto state = reader.read<std::uint8_t>();
  const auto name_size = reader.read<std::uint8_t>();
  const auto address_count = reader.read<std::uint8_t>();
  const auto group_count = reader.read<std::uint8_t>();
  const std::string_view name = text_of(reader.take(name_size));
  const std::span<const std::byte> numbers = reader.take(address_count);
  if (group_count > RIPC_MAX_GROUPS) return false;
  for (std::size_t i = 0; i < group_count; ++i) record.groups.push_back(reader.read<std::uint64_t>());
  if (!reader.ok() || record.id == 0 || is_group(record.id) || record.incarnation == 0 ||
      record.incarnation > kMaxIncarnation)
    return false;
  record.context = header.context;
  record.pid = header.pid;
  service.is_gone = state == 2;
  if (service.is_gone)
    return header.type == PacketType::announcement && name.empty() && numbers.empty() && record.groups.empty();
  if (!is_group_list(record.groups)) return false;
  if (state != 1 || numbers.empty() || name.size() > kMaxNameSize || !is_name_of(name, record.id, hash_name))
    return false;
  record.name = name;
  for (const std::byte number : numbers) {
    if (std::to_integer<std::size_t>(number) >= addresses.size()) return false;
    record.addresses.push_back(addresses[std::to_integer<std::size_t>(number)]);
  }
  return true;
}

}  // namespace

// ---- Writing -------------------------------------------------------------------------------------------------

PacketBuilder::PacketBuilder(const PacketHeader& header, const Seal& seal, std::size_t limit, std::size_t largest)
    : header_(header), seal_(seal), limit_(limit), largest_(largest), size_(kHeaderSize + seal.size()) {}

bool PacketBuilder::add(const ServiceRecord& record, bool is_gone) {
  if (services_.size() == kMaxPacketServices) return false;
  Service service{&record, is_gone, {}};
  std::size_t size = kServiceOverhead;
  const std::size_t known = addresses_.size();
  if (!is_gone) {
    size += record.name.size() + record.addresses.size() + record.groups.size() * sizeof(ripc_service_id);
    for (const Address& address : record.addresses) {
      const auto same = [&](const Address* other) { return *other == address; };
      const auto found = std::find_if(addresses_.begin(), addresses_.end(), same);
      service.addresses.push_back(static_cast<std::uint8_t>(found - addresses_.begin()));
      if (found != addresses_.end()) continue;
      size += size_of(address);
      addresses_.push_back(&address);
    }
  }
  const std::size_t limit = services_.empty() ? largest_ : limit_;
  if (size_ + size > limit || addresses_.size() > kMaxPacketAddresses) {
    addresses_.resize(known);
    return false;
  }
  size_ += size;
  services_.push_back(std::move(service));
  return true;
}

std::vector<std::byte> PacketBuilder::finish(bool is_last, std::string_view purpose) {
  std::vector<std::byte> bytes(size_);
  wire::Writer writer(bytes);
  header_.is_signed = seal_.keys != nullptr;
  header_.has_signer = seal_.identity != nullptr;
  header_.is_last = header_.is_last || is_last;
  writer.write(kPacketMagic);
  writer.write(kPacketVersion);
  writer.write(static_cast<std::uint8_t>(header_.type));
  writer.write(flags_of(header_));
  writer.write(std::uint8_t{0});
  writer.write(header_.context);
  writer.write(header_.timestamp);
  writer.write(header_.nonce);
  writer.write(header_.id);
  writer.write(header_.number);
  writer.write(header_.pid);
  writer.write(static_cast<std::uint16_t>(addresses_.size()));
  writer.write(static_cast<std::uint16_t>(services_.size()));
  for (const Address* address : addresses_) {
    writer.write(static_cast<std::uint8_t>(address->transport.size()));
    writer.write(static_cast<std::uint16_t>(address->locator.size()));
    writer.write_bytes(bytes_of(address->transport));
    writer.write_bytes(bytes_of(address->locator));
  }
  for (const Service& service : services_) {
    const std::string_view name = service.is_gone ? std::string_view() : service.record->name;
    writer.write(service.record->id);
    writer.write(service.record->incarnation);
    writer.write(static_cast<std::uint8_t>(service.is_gone ? 2 : 1));
    writer.write(static_cast<std::uint8_t>(name.size()));
    writer.write(static_cast<std::uint8_t>(service.addresses.size()));
    const std::span<const ripc_service_id> groups =
        service.is_gone ? std::span<const ripc_service_id>() : service.record->groups;
    writer.write(static_cast<std::uint8_t>(groups.size()));
    writer.write_bytes(bytes_of(name));
    writer.write_bytes(std::as_bytes(std::span(service.addresses)));
    for (const ripc_service_id group : groups) writer.write(group);
  }
  bytes.resize(writer.size());
  if (header_.has_signer) {
    const security::PublicKey& key = seal_.identity->public_key();
    bytes.insert(bytes.end(), key.begin(), key.end());
    const security::Signature signature = seal_.identity->sign(purpose, {bytes});
    bytes.insert(bytes.end(), signature.begin(), signature.end());
  }
  if (header_.is_signed) {
    const ClusterKeys::Mac mac = seal_.keys->mac(purpose, {bytes});
    bytes.insert(bytes.end(), mac.begin(), mac.end());
  }
  return bytes;
}

Status check_packet_record(const ServiceRecord& record, const NameHash& hash_name, const Seal& seal,
                           std::size_t largest) {
  const auto refuse = [&](ripc_status status, std::string_view why) {
    return Status(status, "The service ID " + id_text(record.id) +
                              " cannot be published to other hosts: " + std::string(why) + ".");
  };
  if (record.id == 0 || record.context == 0) return refuse(RIPC_INVALID_ARGUMENT, "it or its context has the ID 0");
  if (is_group(record.id) || !is_group_list(record.groups))
    return refuse(RIPC_INVALID_ARGUMENT, "it has the ID of a group, or is in more than 64 or in none that is one");
  if (record.name.size() > kMaxNameSize || !is_name_of(record.name, record.id, hash_name))
    return refuse(RIPC_INVALID_ARGUMENT, "its name is not valid, or not the one that its ID was made from");
  if (record.addresses.empty())
    return refuse(RIPC_INVALID_ARGUMENT, "it has no address: choose a transport with RIPC_TRANSPORTS");
  std::size_t size = kHeaderSize + kServiceOverhead + record.name.size() + seal.size() +
                     record.groups.size() * sizeof(ripc_service_id);
  for (const Address& address : record.addresses) {
    if (!is_transport(address.transport) || !is_locator(address.locator) || !is_for_records(address))
      return refuse(RIPC_INVALID_ARGUMENT,
                    "an address is empty, longer than 4096 bytes or no plain text, or names a directory");
    size += size_of(address) + 1;
  }
  if (size > largest || record.addresses.size() > kMaxPacketAddresses)
    return refuse(
        RIPC_LIMIT,
        "its addresses and groups take more than the " + std::to_string(largest) +
            " bytes of a packet, or are more than 64: give the host fewer addresses, use a shorter runtime directory, "
            "or set RIPC_MULTICAST=off, and RIPC_ZOOKEEPER=off if it is used");
  return {};
}

// ---- Reading -------------------------------------------------------------------------------------------------

DecodeStatus decode_header(std::span<const std::byte> bytes, PacketHeader& header) noexcept {
  wire::Reader reader(bytes);
  if (reader.read<std::uint32_t>() != kPacketMagic) return DecodeStatus::malformed;
  const auto version = reader.read<std::uint8_t>();
  if (reader.ok() && version != kPacketVersion) return DecodeStatus::other_version;
  header.type = static_cast<PacketType>(reader.read<std::uint8_t>());
  const auto flags = reader.read<std::uint8_t>();
  const auto zero = reader.read<std::uint8_t>();
  header.is_signed = (flags & kSignedFlag) != 0;
  header.is_probe = (flags & kProbeFlag) != 0;
  header.is_last = (flags & kLastFlag) != 0;
  header.has_signer = (flags & kSignerFlag) != 0;
  header.context = reader.read<std::uint64_t>();
  header.timestamp = reader.read<std::uint64_t>();
  header.nonce = reader.read<std::uint64_t>();
  header.id = reader.read<std::uint64_t>();
  header.number = reader.read<std::uint64_t>();
  header.pid = reader.read<std::uint32_t>();
  const bool is_sized = bytes.size() >= kHeaderSize + seal_size(header) && bytes.size() <= kMaxPacket;
  return is_sized && zero == 0 && flags <= kAllFlags && is_valid(header) ? DecodeStatus::ok : DecodeStatus::malformed;
}

security::PublicKey stated_signer(std::span<const std::byte> bytes, const PacketHeader& header) noexcept {
  security::PublicKey key{};
  if (!header.has_signer || bytes.size() < kHeaderSize + seal_size(header)) return key;
  std::copy_n(bytes.end() - static_cast<std::ptrdiff_t>(seal_size(header)), key.size(), key.begin());
  return key;
}

DecodeStatus decode_packet(std::span<const std::byte> bytes, const NameHash& hash_name, MulticastPacket& packet) {
  if (const DecodeStatus status = decode_header(bytes, packet.header); status != DecodeStatus::ok) return status;
  packet.services.clear();
  packet.signer.reset();
  const std::size_t end = bytes.size() - seal_size(packet.header);
  wire::Reader reader(bytes.first(end).subspan(kHeaderSize - 4));
  const auto address_count = reader.read<std::uint16_t>();
  const auto service_count = reader.read<std::uint16_t>();
  if (address_count > kMaxPacketAddresses || service_count > kMaxPacketServices) return DecodeStatus::malformed;
  std::vector<Address> addresses;
  addresses.reserve(address_count);
  if (!read_addresses(reader, address_count, addresses)) return DecodeStatus::malformed;
  // A few bytes can name many long addresses many times, so the decoded size is bounded, too.
  std::size_t expanded = 0;
  for (std::size_t i = 0; i < service_count; ++i) {
    PacketService service;
    if (!read_service(reader, addresses, packet.header, hash_name, service)) return DecodeStatus::malformed;
    for (const Address& address : service.record.addresses) expanded += size_of(address);
    if (expanded > kMaxPacketServices * kMaxPacket / 8) return DecodeStatus::malformed;
    packet.services.push_back(std::move(service));
  }
  if (!reader.finished()) return DecodeStatus::malformed;
  if (packet.header.has_signer) packet.signer = stated_signer(bytes, packet.header);
  return DecodeStatus::ok;
}

bool verify_packet(std::span<const std::byte> bytes, const ClusterKeys& keys, std::string_view purpose) noexcept {
  if (bytes.size() < kHeaderSize + ClusterKeys::kMacSize) return false;
  const std::span<const std::byte> text = bytes.first(bytes.size() - ClusterKeys::kMacSize);
  return keys.verify(purpose, {text}, bytes.subspan(text.size()));
}

bool verify_signer(std::span<const std::byte> bytes, const PacketHeader& header, const security::PublicKey& key,
                   std::string_view purpose) noexcept {
  if (!header.has_signer || bytes.size() < kHeaderSize + seal_size(header)) return false;
  const std::size_t end = bytes.size() - (header.is_signed ? ClusterKeys::kMacSize : 0);
  const std::size_t signed_size = end - sizeof(security::Signature);
  return security::Identity::verify(key, purpose, {bytes.first(signed_size)},
                                    bytes.subspan(signed_size, sizeof(security::Signature)));
}

}  // namespace ripc::internal::spi
