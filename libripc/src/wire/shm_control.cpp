// SPDX-License-Identifier: Apache-2.0
#include "wire/shm_control.hpp"

#include <tuple>

#include "wire/bytes.hpp"
#include "wire/fields.hpp"

namespace ripc::wire::shm_control {

namespace {

using fields::is_known;

static_assert(std::variant_size_v<Message> == static_cast<std::size_t>(Type::bye));

// ---- Layouts: the fields of each message in wire order, for both directions ------------------------------------

template <typename T>
struct Layout;
template <>
struct Layout<Hello> {
  static constexpr std::tuple kFields{&Hello::context, &Hello::pid, &Hello::flags};
};
template <>
struct Layout<HelloReply> {
  static constexpr std::tuple kFields{&HelloReply::context, &HelloReply::pid, &HelloReply::flags, &HelloReply::status};
};
template <>
struct Layout<Open> {
  static constexpr std::tuple kFields{&Open::request, &Open::service, &Open::link, &Open::reserved, &Open::reserved2};
};
template <>
struct Layout<Opened> {
  static constexpr std::tuple kFields{&Opened::request, &Opened::status,     &Opened::link,       &Opened::incarnation,
                                      &Opened::cells,   &Opened::data_bytes, &Opened::state_slot, &Opened::flags};
};
template <>
struct Layout<Room> {
  static constexpr std::tuple kFields{&Room::link};
};
template <>
struct Layout<TransferDone> {
  static constexpr std::tuple kFields{&TransferDone::link};
};
template <>
struct Layout<CloseLink> {
  static constexpr std::tuple kFields{&CloseLink::link};
};
template <>
struct Layout<LinkClosed> {
  static constexpr std::tuple kFields{&LinkClosed::link};
};
template <>
struct Layout<Arena> {
  static constexpr std::tuple kFields{&Arena::id, &Arena::flags, &Arena::size};
};
template <>
struct Layout<ArenaGone> {
  static constexpr std::tuple kFields{&ArenaGone::id};
};
template <>
struct Layout<BounceRequest> {
  static constexpr std::tuple kFields{&BounceRequest::link,   &BounceRequest::key,      &BounceRequest::offset,
                                      &BounceRequest::length, &BounceRequest::sequence, &BounceRequest::reserved};
};
template <>
struct Layout<BounceData> {
  static constexpr std::tuple kFields{&BounceData::link,   &BounceData::key,      &BounceData::offset,
                                      &BounceData::status, &BounceData::sequence, &BounceData::length};
};
template <>
struct Layout<Control> {
  static constexpr std::tuple kFields{&Control::link, &Control::destination, &Control::packet};
};
template <>
struct Layout<Fence> {
  static constexpr std::tuple kFields{&Fence::request, &Fence::service, &Fence::incarnation};
};
template <>
struct Layout<Fenced> {
  static constexpr std::tuple kFields{&Fenced::request, &Fenced::status};
};
template <>
struct Layout<Bye> {
  static constexpr std::tuple<> kFields{};
};

// ---- What values are allowed ---------------------------------------------------------------------------------

template <typename T>
bool is_valid(const T&) noexcept {
  return true;
}
bool is_valid(const Hello& hello) noexcept { return hello.flags <= kMaxReach; }
bool is_valid(const HelloReply& reply) noexcept { return reply.flags <= kMaxReach && is_known(reply.status); }
bool is_valid(const Open& open) noexcept { return open.link != 0 && open.reserved == 0 && open.reserved2 == 0; }
bool is_valid(const Opened& opened) noexcept {
  if (opened.status == RIPC_OK) return true;
  return is_known(opened.status) && opened.incarnation == 0 && opened.cells == 0 && opened.data_bytes == 0 &&
         opened.state_slot == 0 && opened.flags == 0;
}
bool is_valid(const Arena& arena) noexcept {
  return arena.id != 0 && arena.size != 0 && (arena.flags & ~kArenaHugePages) == 0;
}
bool is_valid(const BounceRequest& request) noexcept { return request.length != 0 && request.reserved == 0; }
bool is_valid(const BounceData& data) noexcept { return is_known(data.status); }
bool is_valid(const Control& control) noexcept { return !control.packet.empty(); }
bool is_valid(const Fenced& fenced) noexcept { return is_known(fenced.status); }

}  // namespace

template <typename T>
ripc_status encode(const T& message, std::vector<std::byte>& out) {
  out.clear();
  if (!is_valid(message)) return RIPC_INVALID_ARGUMENT;
  const auto write_prefix = [](Writer& writer, std::uint32_t size) {
    writer.write<std::uint8_t>(kProtocolVersion);
    writer.write<std::uint8_t>(static_cast<std::uint8_t>(T::kType));
    writer.write<std::uint16_t>(0);
    writer.write<std::uint32_t>(size);
  };
  return fields::encode(Layout<T>::kFields, message, kPrefixSize, kMaxSize, write_prefix, out);
}

template ripc_status encode(const Hello&, std::vector<std::byte>&);
template ripc_status encode(const HelloReply&, std::vector<std::byte>&);
template ripc_status encode(const Open&, std::vector<std::byte>&);
template ripc_status encode(const Opened&, std::vector<std::byte>&);
template ripc_status encode(const Room&, std::vector<std::byte>&);
template ripc_status encode(const TransferDone&, std::vector<std::byte>&);
template ripc_status encode(const CloseLink&, std::vector<std::byte>&);
template ripc_status encode(const LinkClosed&, std::vector<std::byte>&);
template ripc_status encode(const Arena&, std::vector<std::byte>&);
template ripc_status encode(const ArenaGone&, std::vector<std::byte>&);
template ripc_status encode(const BounceRequest&, std::vector<std::byte>&);
template ripc_status encode(const BounceData&, std::vector<std::byte>&);
template ripc_status encode(const Control&, std::vector<std::byte>&);
template ripc_status encode(const Fence&, std::vector<std::byte>&);
template ripc_status encode(const Fenced&, std::vector<std::byte>&);
template ripc_status encode(const Bye&, std::vector<std::byte>&);

Result<Message> decode(std::span<const std::byte> datagram) noexcept {
  // The version comes first: another version may have another header.
  if (!datagram.empty() && datagram[0] != std::byte{kProtocolVersion}) return RIPC_VERSION_MISMATCH;
  if (datagram.size() > kMaxSize) return RIPC_CORRUPT;
  Reader reader(datagram);
  reader.read<std::uint8_t>();
  const auto type = static_cast<Type>(reader.read<std::uint8_t>());
  const auto zero = reader.read<std::uint16_t>();
  const auto size = reader.read<std::uint32_t>();
  if (!reader.ok() || zero != 0 || size != datagram.size()) return RIPC_CORRUPT;
  return fields::decode<Layout, Message>(type, reader, [](const auto& message) { return is_valid(message); });
}

}  // namespace ripc::wire::shm_control
