// SPDX-License-Identifier: Apache-2.0
#include "wire/shm_control.hpp"

#include "wire/bytes.hpp"

namespace ripc::internal::wire::shm_control {

namespace {

template <typename T>
bool is_valid(const T&) noexcept {
  return true;
}
bool is_valid(const Hello& hello) noexcept { return hello.flags <= kMaxReach; }
bool is_valid(const HelloReply& reply) noexcept { return reply.flags <= kMaxReach; }
bool is_valid(const Open& open) noexcept { return open.link != 0 && open.reserved == 0 && open.reserved2 == 0; }
bool is_valid(const Opened& opened) noexcept {
  if (opened.status == RIPC_OK) return true;
  return opened.incarnation == 0 && opened.cells == 0 && opened.data_bytes == 0 && opened.state_slot == 0 &&
         opened.flags == 0;
}
bool is_valid(const Arena& arena) noexcept {
  return arena.id != 0 && arena.size != 0 && (arena.flags & ~kArenaHugePages) == 0;
}
bool is_valid(const BounceRequest& request) noexcept { return request.length != 0 && request.reserved == 0; }
bool is_valid(const Control& control) noexcept { return !control.packet.empty(); }

constexpr auto kIsValid = [](const auto& message) { return is_valid(message); };

}  // namespace

ripc_status encode(const Message& message, std::vector<std::byte>& out) {
  const auto write_prefix = [](Writer& writer, std::uint8_t type, std::uint32_t size) {
    writer.write<std::uint8_t>(kProtocolVersion);
    writer.write<std::uint8_t>(type);
    writer.write<std::uint16_t>(0);
    writer.write<std::uint32_t>(size);
  };
  return fields::encode(message, kPrefixSize, kMaxSize, kIsValid, write_prefix, out);
}

Result<Message> decode(std::span<const std::byte> datagram) noexcept {
  // The version comes first: another version may have another header.
  if (!datagram.empty() && datagram[0] != std::byte{kProtocolVersion}) return RIPC_VERSION_MISMATCH;
  if (datagram.size() > kMaxSize) return RIPC_CORRUPT;
  Reader reader(datagram);
  reader.read<std::uint8_t>();
  const auto type = reader.read<std::uint8_t>();
  const auto zero = reader.read<std::uint16_t>();
  const auto size = reader.read<std::uint32_t>();
  if (!reader.ok() || zero != 0 || size != datagram.size()) return RIPC_CORRUPT;
  return fields::decode<Message>(type, reader, kIsValid);
}

}  // namespace ripc::internal::wire::shm_control
