// SPDX-License-Identifier: Apache-2.0
// The header of every datagram of a link. docs/wire.md is the specification; the decoder trusts nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ripc/ripc.h"
#include "wire/bytes.hpp"

namespace ripc::internal::wire::datagram {

inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kHeaderSize = 28;
// The largest packet that travels in one or several datagrams.
inline constexpr std::size_t kMaxPacket = std::size_t{128} << 10;
// The largest packet on a link's connection: an item of 1 MiB, and what surrounds it. Larger items are pulled, straight
// into the receiver's memory.
inline constexpr std::size_t kMaxRecordPacket = (std::size_t{1} << 20) + (std::size_t{4} << 10);

enum class Kind : std::uint8_t {
  data = 1,    // to the receiver; a packet follows
  credit = 2,  // to the sender: room was granted
  probe = 3,   // to the receiver: how much room is there?
  // To many receivers, through a multicast group of the network; a packet may follow, otherwise it is a greeting.
  multicast = 4,
  // To the queue pair that sends for the receiver's context, to test whether datagrams get through. It answers with a
  // greeting.
  greeting = 5,
};

struct Header {
  Kind kind = Kind::data;
  std::uint8_t before = 0;  // data: datagrams of the same packet that were sent before this one ...
  std::uint8_t after = 0;   // ... and that follow it; their numbers are consecutive
  // data: number of this datagram on its link, from 1 on, modulo 2^32 (0 follows the last); multicast: number with its
  // token
  std::uint32_t sequence = 0;
  std::uint64_t token = 0;        // of the link that the datagram travels on; multicast: of a JoinGroup
  std::uint32_t spent = 0;        // data and probe: what the sender has spent so far, modulo 2^32
  std::uint32_t credit_link = 0;  // the link that `credit` is for; 0: none. An answered greeting: its link
  std::uint32_t credit = 0;       // how far that link's sender may spend, modulo 2^32
  friend bool operator==(const Header&, const Header&) = default;
};

using HeaderBytes = std::array<std::byte, kHeaderSize>;

// Any thread. Never fails: every Header has an encoding.
inline void encode(const Header& header, HeaderBytes& bytes) noexcept {
  store_le<std::uint32_t>(bytes.data(), kVersion | static_cast<std::uint32_t>(header.kind) << 8 |
                                            std::uint32_t{header.before} << 16 | std::uint32_t{header.after} << 24);
  store_le<std::uint32_t>(bytes.data() + 4, header.sequence);
  store_le<std::uint64_t>(bytes.data() + 8, header.token);
  store_le<std::uint32_t>(bytes.data() + 16, header.spent);
  store_le<std::uint32_t>(bytes.data() + 20, header.credit_link);
  store_le<std::uint32_t>(bytes.data() + 24, header.credit);
}

// Any thread. Reads the header of a whole datagram, and does not look at what follows it. RIPC_VERSION_MISMATCH for
// another version. RIPC_CORRUPT: it is shorter than a header, or of an unknown kind. Also a data datagram without a
// packet, a credit datagram that names no link, bytes left over after a credit, probe or greeting, or a part of a
// packet that is not data.
inline ripc_status decode(std::span<const std::byte> bytes, Header& header) noexcept {
  if (bytes.empty()) return RIPC_CORRUPT;
  if (bytes[0] != std::byte{kVersion}) return RIPC_VERSION_MISMATCH;
  if (bytes.size() < kHeaderSize) return RIPC_CORRUPT;
  const auto head = load_le<std::uint32_t>(bytes.data());
  const auto kind = static_cast<std::uint8_t>(head >> 8);
  if (kind == 0 || kind > static_cast<std::uint8_t>(Kind::greeting)) return RIPC_CORRUPT;
  header.kind = static_cast<Kind>(kind);
  header.before = static_cast<std::uint8_t>(head >> 16);
  header.after = static_cast<std::uint8_t>(head >> 24);
  if (header.kind != Kind::data && head >> 16 != 0) return RIPC_CORRUPT;
  header.sequence = load_le<std::uint32_t>(bytes.data() + 4);
  header.token = load_le<std::uint64_t>(bytes.data() + 8);
  header.spent = load_le<std::uint32_t>(bytes.data() + 16);
  header.credit_link = load_le<std::uint32_t>(bytes.data() + 20);
  header.credit = load_le<std::uint32_t>(bytes.data() + 24);
  const bool has_packet = bytes.size() > kHeaderSize;
  if (header.kind != Kind::multicast && (header.kind == Kind::data) != has_packet) return RIPC_CORRUPT;
  if (header.kind == Kind::credit && header.credit_link == 0) return RIPC_CORRUPT;
  return RIPC_OK;
}

}  // namespace ripc::internal::wire::datagram
