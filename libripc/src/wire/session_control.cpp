// SPDX-License-Identifier: Apache-2.0
#include "wire/session_control.hpp"

#include <tuple>

#include "base/group_id.hpp"
#include "wire/bytes.hpp"
#include "wire/fields.hpp"

namespace ripc::wire::session_control {

namespace {

using fields::is_known;

static_assert(std::variant_size_v<Frame> == static_cast<std::size_t>(Type::streamed));

// ---- Layouts: the fields of each frame in wire order, for both directions --------------------------------------

template <typename T>
struct Layout;
template <>
struct Layout<Hello> {
  static constexpr std::tuple kFields{&Hello::context, &Hello::session, &Hello::received,
                                      &Hello::role,    &Hello::port,    &Hello::nonce};
};
template <>
struct Layout<HelloReply> {
  static constexpr std::tuple kFields{&HelloReply::context, &HelloReply::received, &HelloReply::status,
                                      &HelloReply::nonce, &HelloReply::mac};
};
template <>
struct Layout<Confirm> {
  static constexpr std::tuple kFields{&Confirm::mac};
};
template <>
struct Layout<Open> {
  static constexpr std::tuple kFields{&Open::request, &Open::service, &Open::token, &Open::link, &Open::port};
};
template <>
struct Layout<Opened> {
  static constexpr std::tuple kFields{&Opened::request, &Opened::status,       &Opened::link,  &Opened::incarnation,
                                      &Opened::port,    &Opened::packet_limit, &Opened::credit};
};
template <>
struct Layout<CloseLink> {
  static constexpr std::tuple kFields{&CloseLink::link, &CloseLink::sequence};
};
template <>
struct Layout<LinkClosed> {
  static constexpr std::tuple kFields{&LinkClosed::link, &LinkClosed::status};
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
struct Layout<Heartbeat> {
  static constexpr std::tuple kFields{&Heartbeat::received};
};
template <>
struct Layout<WantBulk> {
  static constexpr std::tuple<> kFields{};
};
template <>
struct Layout<Bye> {
  static constexpr std::tuple<> kFields{};
};
template <>
struct Layout<BulkPort> {
  static constexpr std::tuple kFields{&BulkPort::port, &BulkPort::nonce};
};
template <>
struct Layout<OpenDatagram> {
  static constexpr std::tuple kFields{&OpenDatagram::request,    &OpenDatagram::service,   &OpenDatagram::token,
                                      &OpenDatagram::link,       &OpenDatagram::gid,       &OpenDatagram::lid,
                                      &OpenDatagram::queue_pair, &OpenDatagram::queue_key, &OpenDatagram::mtu};
};
template <>
struct Layout<DatagramOpened> {
  static constexpr std::tuple kFields{
      &DatagramOpened::request,     &DatagramOpened::status,       &DatagramOpened::link,
      &DatagramOpened::incarnation, &DatagramOpened::gid,          &DatagramOpened::lid,
      &DatagramOpened::queue_pair,  &DatagramOpened::queue_key,    &DatagramOpened::packet_limit,
      &DatagramOpened::credit,      &DatagramOpened::greeted_pair, &DatagramOpened::greeted_key};
};
template <>
struct Layout<Hear> {
  static constexpr std::tuple kFields{&Hear::link, &Hear::token, &Hear::group};
};
template <>
struct Layout<Heard> {
  static constexpr std::tuple kFields{&Heard::link, &Heard::token};
};
template <>
struct Layout<HearNoMore> {
  static constexpr std::tuple kFields{&HearNoMore::link, &HearNoMore::token};
};
template <>
struct Layout<Prove> {
  static constexpr std::tuple kFields{&Prove::link};
};
template <>
struct Layout<Proved> {
  static constexpr std::tuple kFields{&Proved::link, &Proved::arrived};
};
template <>
struct Layout<Streamed> {
  static constexpr std::tuple kFields{&Streamed::link, &Streamed::datagram};
};

// ---- What values are allowed ---------------------------------------------------------------------------------

bool is_port(std::uint32_t port) noexcept { return port >= 1 && port <= 65535; }

template <typename T>
bool is_valid(const T&) noexcept {
  return true;
}
bool is_valid(const Hello& hello) noexcept {
  return hello.context != 0 && hello.session != 0 && hello.role >= static_cast<std::uint32_t>(Role::control) &&
         hello.role <= static_cast<std::uint32_t>(Role::check) && is_port(hello.port);
}
bool is_valid(const HelloReply& reply) noexcept { return is_known(reply.status); }
bool is_valid(const Open& open) noexcept { return open.link != 0 && is_port(open.port); }
bool is_valid(const Opened& opened) noexcept {
  if (opened.status == RIPC_OK) return is_port(opened.port);
  return is_known(opened.status) && opened.incarnation == 0 && opened.port == 0 && opened.packet_limit == 0 &&
         opened.credit == 0;
}
bool is_valid(const BulkPort& bulk) noexcept { return is_port(bulk.port); }
bool is_queue_pair(std::uint32_t number) noexcept { return number != 0 && number < 1u << 24; }
bool is_valid(const OpenDatagram& open) noexcept {
  return open.link != 0 && open.lid <= 65535 && is_queue_pair(open.queue_pair) && open.mtu != 0;
}
bool is_valid(const DatagramOpened& opened) noexcept {
  if (opened.status == RIPC_OK)
    return opened.lid <= 65535 && is_queue_pair(opened.queue_pair) && is_queue_pair(opened.greeted_pair);
  return is_known(opened.status) &&
         opened == DatagramOpened{.request = opened.request, .status = opened.status, .link = opened.link};
}
bool is_valid(const Hear& hear) noexcept { return hear.token != 0 && is_group(hear.group); }
bool is_valid(const Heard& heard) noexcept { return heard.token != 0; }
bool is_valid(const HearNoMore& hear) noexcept { return hear.token != 0; }
bool is_valid(const LinkClosed& closed) noexcept { return is_known(closed.status); }
bool is_valid(const Control& control) noexcept { return !control.packet.empty(); }
bool is_valid(const Proved& proved) noexcept { return proved.arrived <= 1; }
bool is_valid(const Streamed& streamed) noexcept { return !streamed.datagram.empty(); }
bool is_valid(const Fenced& fenced) noexcept { return is_known(fenced.status); }

}  // namespace

template <typename T>
ripc_status encode(const T& frame, std::vector<std::byte>& out) {
  out.clear();
  if (!is_valid(frame)) return RIPC_INVALID_ARGUMENT;
  const auto write_prefix = [](Writer& writer, std::uint32_t size) {
    writer.write<std::uint32_t>(size);
    writer.write<std::uint8_t>(kProtocolVersion);
    writer.write<std::uint8_t>(static_cast<std::uint8_t>(T::kType));
    writer.write<std::uint16_t>(0);
  };
  return fields::encode(Layout<T>::kFields, frame, kPrefixSize, kMaxSize, write_prefix, out);
}

template ripc_status encode(const Hello&, std::vector<std::byte>&);
template ripc_status encode(const HelloReply&, std::vector<std::byte>&);
template ripc_status encode(const Confirm&, std::vector<std::byte>&);
template ripc_status encode(const Open&, std::vector<std::byte>&);
template ripc_status encode(const Opened&, std::vector<std::byte>&);
template ripc_status encode(const CloseLink&, std::vector<std::byte>&);
template ripc_status encode(const LinkClosed&, std::vector<std::byte>&);
template ripc_status encode(const Control&, std::vector<std::byte>&);
template ripc_status encode(const Fence&, std::vector<std::byte>&);
template ripc_status encode(const Fenced&, std::vector<std::byte>&);
template ripc_status encode(const Heartbeat&, std::vector<std::byte>&);
template ripc_status encode(const WantBulk&, std::vector<std::byte>&);
template ripc_status encode(const Bye&, std::vector<std::byte>&);
template ripc_status encode(const BulkPort&, std::vector<std::byte>&);
template ripc_status encode(const OpenDatagram&, std::vector<std::byte>&);
template ripc_status encode(const DatagramOpened&, std::vector<std::byte>&);
template ripc_status encode(const Hear&, std::vector<std::byte>&);
template ripc_status encode(const Heard&, std::vector<std::byte>&);
template ripc_status encode(const HearNoMore&, std::vector<std::byte>&);
template ripc_status encode(const Prove&, std::vector<std::byte>&);
template ripc_status encode(const Proved&, std::vector<std::byte>&);
template ripc_status encode(const Streamed&, std::vector<std::byte>&);

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
  const auto type = static_cast<Type>(reader.read<std::uint8_t>());
  if (reader.read<std::uint16_t>() != 0 || !reader.ok()) return RIPC_CORRUPT;
  return fields::decode<Layout, Frame>(type, reader, [](const auto& frame) { return is_valid(frame); });
}

}  // namespace ripc::wire::session_control
