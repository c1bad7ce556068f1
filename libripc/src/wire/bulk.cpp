// SPDX-License-Identifier: Apache-2.0
#include "wire/bulk.hpp"

#include "wire/bytes.hpp"

namespace ripc::internal::wire::bulk {

namespace {

bool is_status(std::uint64_t value) noexcept { return value <= RIPC_SYSTEM; }

bool is_valid(const Frame& frame, Carrier carrier) noexcept {
  const bool names_nothing = frame.key == 0 && frame.location == 0;
  switch (frame.type) {
    case Type::pull_request:
      return frame.length != 0 && frame.length <= kMaxSegment && frame.value == 0 &&
             frame.offset <= UINT64_MAX - frame.length;
    case Type::data:
      return frame.length <= kMaxPayload && names_nothing && frame.value == 0 &&
             frame.offset <= UINT64_MAX - frame.length;
    case Type::finish:
      return frame.length == 0 && frame.id <= (carrier == Carrier::rdma ? UINT32_MAX : 0) && frame.offset == 0 &&
             is_status(frame.value);
    case Type::finished:
      return frame.length == 0 && frame.id == 0 && frame.offset == 0 &&
             (frame.value == RIPC_OK || frame.value == RIPC_REVOKED);
    case Type::push:
      return frame.length <= kMaxPayload && frame.offset <= frame.value && frame.length <= frame.value - frame.offset;
    case Type::pushed:
      return frame.length == 0 && names_nothing && frame.offset == 0 && is_status(frame.value);
    case Type::ask_read:
      return frame.length == 0 && frame.offset == 0 && frame.value == 0;
    case Type::ask_write:
      return frame.length == 0 && frame.offset == 0 && frame.value != 0;
    case Type::written:
      return frame.length == 0 && frame.offset == 0;
    case Type::offer:
      return frame.length == 0 && frame.offset <= 1 && frame.id <= UINT32_MAX &&
             (frame.value != 0 || (frame.id == 0 && frame.offset == 0));
    case Type::remote_key:
      return frame.length == 0 && frame.offset <= 1 && frame.key <= UINT32_MAX && is_status(frame.value) &&
             (frame.value == RIPC_OK || (names_nothing && frame.offset == 0));
  }
  return false;
}

bool travels_over(Type type, Carrier carrier) noexcept {
  switch (type) {
    case Type::finish:
    case Type::finished:
    case Type::pushed:
      return true;
    case Type::pull_request:
    case Type::data:
    case Type::push:
      return carrier == Carrier::stream;
    default:
      return carrier == Carrier::rdma;
  }
}

}  // namespace

void encode(const Frame& frame, std::span<std::byte, kHeaderSize> out) noexcept {
  Writer writer(out);
  writer.write<std::uint8_t>(kVersion);
  writer.write<std::uint8_t>(static_cast<std::uint8_t>(frame.type));
  writer.write<std::uint16_t>(0);
  writer.write<std::uint32_t>(frame.length);
  for (const std::uint64_t field : {frame.id, frame.key, frame.location, frame.offset, frame.value})
    writer.write<std::uint64_t>(field);
}

Result<Frame> decode(std::span<const std::byte, kHeaderSize> bytes, Carrier carrier) noexcept {
  if (bytes[0] != std::byte{kVersion}) return RIPC_VERSION_MISMATCH;
  Reader reader(bytes);
  reader.read<std::uint8_t>();
  Frame frame;
  frame.type = static_cast<Type>(reader.read<std::uint8_t>());
  const auto zero = reader.read<std::uint16_t>();
  frame.length = reader.read<std::uint32_t>();
  for (std::uint64_t* field : {&frame.id, &frame.key, &frame.location, &frame.offset, &frame.value})
    *field = reader.read<std::uint64_t>();
  if (zero != 0 || !is_valid(frame, carrier) || !travels_over(frame.type, carrier)) return RIPC_CORRUPT;
  return frame;
}

std::array<std::byte, kTrailerSize> encode_trailer(ripc_status status) noexcept {
  std::array<std::byte, kTrailerSize> bytes{};
  store_le<std::uint32_t>(bytes.data(), static_cast<std::uint32_t>(status));
  return bytes;
}

std::optional<ripc_status> decode_trailer(std::span<const std::byte, kTrailerSize> bytes) noexcept {
  const auto value = load_le<std::uint64_t>(bytes.data());
  if (!is_status(value)) return std::nullopt;
  return static_cast<ripc_status>(value);
}

}  // namespace ripc::internal::wire::bulk
