// SPDX-License-Identifier: Apache-2.0
#include "wire/session_control.hpp"

#include "base/group_id.hpp"
#include "wire/bytes.hpp"
#include "wire/datagram.hpp"

namespace ripc::internal::wire::session_control {

namespace {

bool is_port(std::uint32_t port) noexcept { return port >= 1 && port <= 65535; }

template <typename T>
bool is_valid(const T&) noexcept {
  return true;
}
bool is_valid(const Hello& hello) noexcept {
  return hello.context != 0 && hello.session != 0 && hello.role >= static_cast<std::uint32_t>(Role::control) &&
         hello.role <= static_cast<std::uint32_t>(Role::peer_stream) && is_port(hello.port) &&
         hello.abilities <= kAllAbilities && hello.offers.size() % HandshakeOffer::kSize == 0 &&
         hello.offers.size() <= HandshakeOffer::kMost * HandshakeOffer::kSize;
}
bool is_valid(const HelloReply& reply) noexcept {
  return reply.abilities <= kAllAbilities && reply.choice <= HandshakeOffer::kMost &&
         (reply.choice != 0 || reply.message.empty());
}
bool is_valid(const Open& open) noexcept { return open.link != 0 && is_port(open.port); }
bool is_valid(const Opened& opened) noexcept {
  if (opened.status == RIPC_OK)
    return is_port(opened.port) && opened.packet_limit >= kMinPacketLimit &&
           opened.packet_limit <= datagram::kMaxRecordPacket;
  return opened.incarnation == 0 && opened.port == 0 && opened.packet_limit == 0 && opened.credit == 0;
}
bool is_valid(const BulkPort& bulk) noexcept { return bulk.port <= 65535; }
bool is_queue_pair(std::uint32_t number) noexcept { return number != 0 && number < 1u << 24; }
bool is_valid(const OpenDatagram& open) noexcept {
  return open.link != 0 && open.lid <= 65535 && is_queue_pair(open.queue_pair) && open.mtu >= kMinDatagramMtu;
}
bool is_valid(const DatagramOpened& opened) noexcept {
  if (opened.status == RIPC_OK)
    return opened.lid <= 65535 && is_queue_pair(opened.queue_pair) && is_queue_pair(opened.greeted_pair) &&
           opened.packet_limit >= kMinPacketLimit;
  return opened == DatagramOpened{.request = opened.request, .status = opened.status, .link = opened.link};
}
bool is_valid(const JoinGroup& join) noexcept { return join.token != 0 && is_group(join.group); }
bool is_valid(const GroupJoined& joined) noexcept { return joined.token != 0; }
bool is_valid(const LeaveGroup& leave) noexcept { return leave.token != 0; }
bool is_valid(const Control& control) noexcept { return !control.packet.empty(); }
bool is_valid(const Proved& proved) noexcept { return proved.arrived <= 1; }
bool is_valid(const Bye& bye) noexcept { return bye.status == RIPC_OK || bye.status == RIPC_REFUSED; }
bool is_valid(const Streamed& streamed) noexcept { return !streamed.datagram.empty(); }

constexpr auto kIsValid = [](const auto& frame) { return is_valid(frame); };

}  // namespace

ripc_status encode(const Frame& frame, std::vector<std::byte>& out) {
  const auto write_prefix = [](Writer& writer, std::uint8_t type, std::uint32_t size) {
    writer.write<std::uint32_t>(size);
    writer.write<std::uint8_t>(kProtocolVersion);
    writer.write<std::uint8_t>(type);
    writer.write<std::uint16_t>(0);
  };
  return fields::encode(frame, kPrefixSize, kMaxSize, kIsValid, write_prefix, out);
}

Result<std::size_t> frame_size(std::span<const std::byte> prefix) noexcept {
  Reader reader(prefix);
  const std::size_t size = reader.read<std::uint32_t>();
  const auto version = reader.read<std::uint8_t>();
  if (!reader.ok()) return RIPC_CORRUPT;
  if (version != kProtocolVersion) return RIPC_VERSION_MISMATCH;
  if (size < kPrefixSize || size > kMaxSize) return RIPC_CORRUPT;
  return size;
}

Result<Frame> decode(std::span<const std::byte> bytes) noexcept {
  const Result<std::size_t> size = frame_size(bytes);
  if (!size.ok()) return size.status();
  if (*size != bytes.size()) return RIPC_CORRUPT;
  Reader reader(bytes.subspan(5));
  const auto type = reader.read<std::uint8_t>();
  if (reader.read<std::uint16_t>() != 0 || !reader.ok()) return RIPC_CORRUPT;
  return fields::decode<Frame>(type, reader, kIsValid);
}

}  // namespace ripc::internal::wire::session_control
