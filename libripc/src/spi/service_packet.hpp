// SPDX-License-Identifier: Apache-2.0
// Packets in which resolvers describe services to each other: the packets of the multicast resolver, and the records
// that the ZooKeeper resolver stores. docs/wire.md, "Multicast resolver", has their layout.
//
// A packet describes services of one context, its sender. Their addresses are written once in each packet, however many
// services share them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/cluster_key.hpp"
#include "security/credentials.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::spi {

// The purpose of a MAC or signature: a packet that was signed for one purpose is not valid for another.
inline constexpr std::string_view kMulticastPurpose = "ripc multicast 2";
inline constexpr std::string_view kDirectoryPurpose = "ripc directory 2";

inline constexpr std::uint32_t kPacketMagic = 0x434d5052;  // "RPMC"
inline constexpr std::uint8_t kPacketVersion = 5;
inline constexpr std::size_t kContextOffset = 8;  // where the sender is in the header
// Packets are filled up to this size, which every link carries in one piece (IPv6 demands 1280). A service whose
// addresses need more space gets a packet of its own, of up to kMaxPacket bytes.
inline constexpr std::size_t kFullPacket = 1200;
inline constexpr std::size_t kMaxPacket = 8192;
inline constexpr std::size_t kMaxPacketAddresses = kMaxAddresses;  // of all its services
inline constexpr std::size_t kMaxPacketServices = 256;

enum class PacketType : std::uint8_t { question = 1, reply = 2, announcement = 3 };

// What authenticates a packet: a MAC with the cluster's key, and a signature by the sender's identity.
struct Seal {
  Seal() noexcept = default;
  explicit Seal(const ClusterKeys* cluster, const security::Identity* own = nullptr) noexcept
      : keys(cluster), identity(own) {}
  explicit Seal(const security::Credentials& credentials) noexcept
      : Seal(credentials.keys.get(), credentials.identity.get()) {}

  const ClusterKeys* keys = nullptr;             // nullptr: no MAC
  const security::Identity* identity = nullptr;  // nullptr: no signature

  static constexpr std::size_t kSignatureSize = sizeof(security::PublicKey) + sizeof(security::Signature);
  std::size_t size() const noexcept {
    return (keys != nullptr ? ClusterKeys::kMacSize : 0) + (identity != nullptr ? kSignatureSize : 0);
  }
};

struct PacketHeader {
  PacketType type = PacketType::question;
  bool is_signed = false;       // it has a MAC
  bool has_signer = false;      // it has the signature of an identity
  bool is_probe = false;        // question: its sender wants to publish the ID
  bool is_last = false;         // reply: none with a larger number follows
  std::uint64_t context = 0;    // the sender; never 0
  std::uint32_t pid = 0;        // its process; 0: unknown
  std::uint64_t timestamp = 0;  // sender's wall clock in nanoseconds; differs in all packets of one context. In a
                                // directory: the session that owns the node
  std::uint64_t nonce = 0;      // question: random; reply: that of the question; announcement: 0
  ripc_service_id id = 0;  // question: which service or group, 0 for all; reply: that of the question; announcement: 0
  std::uint64_t number = 0;  // probe: the incarnation that its sender will have; reply: from 0 on; else 0
};

struct PacketService {
  bool is_gone = false;  // announcement: it ended; only id and incarnation of the record count
  ServiceRecord record;
};

struct MulticastPacket {
  PacketHeader header;
  std::vector<PacketService> services;
  std::optional<security::PublicKey> signer;  // whose signature it has; not verified
};

// Collects services until the packet is full.
class PacketBuilder {
 public:
  // What the seal points to must outlive finish(). limit: bytes that the encoded packet may have, with the seal; a
  // first service may exceed it, up to `largest`.
  PacketBuilder(const PacketHeader& header, const Seal& seal, std::size_t limit = kFullPacket,
                std::size_t largest = kMaxPacket);

  // False if it does not fit any more; then nothing was added. The record must outlive finish(); it is not copied.
  bool add(const ServiceRecord& record, bool is_gone);
  bool empty() const noexcept { return services_.empty(); }

  // Returns the packet's bytes. is_last: see PacketHeader.
  std::vector<std::byte> finish(bool is_last = false, std::string_view purpose = kMulticastPurpose);

 private:
  struct Service {
    const ServiceRecord* record;
    bool is_gone;
    std::vector<std::uint8_t> addresses;  // numbers in addresses_
  };
  PacketHeader header_;
  Seal seal_;
  std::size_t limit_;
  std::size_t largest_;
  std::size_t size_;
  std::vector<const Address*> addresses_;
  std::vector<Service> services_;
};

// Whether the record can be sent at all, with this seal in packets of up to `largest` bytes: RIPC_LIMIT with what is
// too long, RIPC_INVALID_ARGUMENT.
Status check_packet_record(const ServiceRecord& record, const NameHash& hash_name, const Seal& seal,
                           std::size_t largest = kMaxPacket);

enum class DecodeStatus : std::uint8_t { ok, other_version, malformed };

// Only the header, checked: enough to decide whether the rest is worth the work.
DecodeStatus decode_header(std::span<const std::byte> bytes, PacketHeader& header) noexcept;

// Whose signature a packet, whose header was decoded, says it has; not verified. Zeros: no one's.
security::PublicKey stated_signer(std::span<const std::byte> bytes, const PacketHeader& header) noexcept;

// Any bytes are allowed. Checks every rule of docs/wire.md except the MAC; checks names with hash_name. Signed or not,
// the services belong to the sender: their context and pid are the header's.
DecodeStatus decode_packet(std::span<const std::byte> bytes, const NameHash& hash_name, MulticastPacket& packet);

// Whether the MAC at the end of a signed packet, whose header was decoded, is right.
bool verify_packet(std::span<const std::byte> bytes, const ClusterKeys& keys,
                   std::string_view purpose = kMulticastPurpose) noexcept;

// Whether the signature of a decoded packet that has one is right. `key`: its signer.
bool verify_signer(std::span<const std::byte> bytes, const PacketHeader& header, const security::PublicKey& key,
                   std::string_view purpose = kMulticastPurpose) noexcept;

}  // namespace ripc::internal::spi
