// SPDX-License-Identifier: Apache-2.0
#include "wire/call.hpp"

#include <algorithm>
#include <bit>

#include "wire/bytes.hpp"

namespace ripc::internal::wire::call {

namespace {

bool is_slot_count(std::uint32_t count) noexcept { return std::has_single_bit(count) && count <= kMaxSlots; }

bool is_valid(const Header& header) noexcept {
  const bool is_state = header.kind == Kind::state;
  if (is_state != (header.state != State{})) return false;
  if (header.time > (header.kind == Kind::request ? kNoTimeLimit : header.kind == Kind::answer ? kLate : 0))
    return false;
  const bool names_call = header.session != 0 && header.incarnation != 0;
  switch (header.kind) {
    case Kind::open:
      return header.session == 0 && header.incarnation == 0 && is_slot_count(header.code);
    case Kind::opened:
      return names_call && is_slot_count(header.code);
    case Kind::request:
      return names_call;
    case Kind::answer:
      return header.session != 0;
    case Kind::cancel:
    case Kind::ask:
      return names_call && header.code == 0;
    case Kind::state:
      return header.incarnation == 0 && header.state <= State::unseen && header.code <= RIPC_SYSTEM &&
             (header.state == State::running || header.state == State::unseen) == (header.code == RIPC_OK);
  }
  return false;
}

}  // namespace

void encode(const Header& header, std::byte* to) noexcept {
  // Write large pieces: the header is copied right away, and a processor cannot serve one load from several stores.
  const std::array<std::uint64_t, kHeaderSize / 8> words{
      header.version | std::uint64_t{static_cast<std::uint8_t>(header.kind)} << 8 |
          std::uint64_t{static_cast<std::uint16_t>(header.state)} << 16 | std::uint64_t{header.number} << 32,
      header.session, header.incarnation, header.code | std::uint64_t{header.time} << 32};
  for (std::size_t index = 0; index < words.size(); ++index) store_le(to + 8 * index, words[index]);
}

ripc_status decode(std::span<const std::byte> bytes, Header& header) noexcept {
  if (bytes.size() < kHeaderSize) return RIPC_CORRUPT;
  header.version = static_cast<std::uint8_t>(bytes[0]);
  header.kind = static_cast<Kind>(bytes[1]);
  header.state = static_cast<State>(load_le<std::uint16_t>(bytes.data() + 2));
  header.number = load_le<std::uint32_t>(bytes.data() + 4);
  header.session = load_le<std::uint64_t>(bytes.data() + 8);
  header.incarnation = load_le<std::uint64_t>(bytes.data() + 16);
  header.code = load_le<std::uint32_t>(bytes.data() + 24);
  header.time = load_le<std::uint32_t>(bytes.data() + 28);
  if (header.version != kVersion) return RIPC_VERSION_MISMATCH;
  const bool has_items = header.kind == Kind::request || header.kind == Kind::answer;
  return is_valid(header) && (has_items || bytes.size() == kHeaderSize) ? RIPC_OK : RIPC_CORRUPT;
}

void encode_returned(const Returned& returned, std::byte* to) noexcept {
  store_le(to, returned.index);
  store_le(to + 4, returned.size);
  std::ranges::copy(returned.bytes, to + kReturnedSize);
}

Result<Returned> decode_returned(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < kReturnedSize) return RIPC_CORRUPT;
  const Returned returned{load_le<std::uint32_t>(bytes.data()), load_le<std::uint64_t>(bytes.data() + 4),
                          bytes.subspan(kReturnedSize)};
  if (!returned.bytes.empty() && returned.bytes.size() != returned.size) return RIPC_CORRUPT;
  return returned;
}

std::uint32_t time_left(Nanoseconds nanoseconds) noexcept {
  const Nanoseconds microseconds = nanoseconds / 1000 + (nanoseconds % 1000 != 0 ? 1 : 0);
  return microseconds < kNoTimeLimit ? static_cast<std::uint32_t>(microseconds) : kNoTimeLimit;
}

Nanoseconds to_nanoseconds(std::uint32_t time) noexcept {
  return time == kNoTimeLimit ? UINT64_MAX : Nanoseconds{time} * 1000;
}

}  // namespace ripc::internal::wire::call
