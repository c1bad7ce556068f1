// SPDX-License-Identifier: Apache-2.0
// The file protocol between `ripc serve` and `ripc get`: an application of libripc, not a part of it. The specification
// is docs/file-service.md; this is its encoding. Numbers are little-endian; the decoders trust nothing.
//
//   request   tag = Operation       item 0 RequestHeader, item 1 the path (open, fetch) or a notification (subscribe)
//   reply     tag = FileStatus      item 0 ReplyHeader,   item 1 the content, or a sentence if the status is not ok
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ripc/ripc.hpp"

namespace cli::file {

inline constexpr std::uint16_t kProtocolVersion = 1;
// The longest piece of a file that one fetch may ask for.
inline constexpr std::uint64_t kMaxChunk = std::uint64_t{256} << 20;

enum class Operation : std::uint32_t {
  ping = 0x676e6970,  // "ping": any bytes; the service sends the same items back with the same tag
  open = 1,           // what is this file: size and version, and the content if it fits a short message
  fetch = 2,          // length bytes from offset of this version of the file, long or into return buffer 0
  subscribe = 3,      // run this notification when the service ends in order
};

enum class FileStatus : std::uint32_t {
  ok = 0,
  bad_request = 1,
  no_such_file = 2,
  no_permission = 3,
  is_directory = 4,
  not_regular = 5,
  outside = 6,  // the path leaves the served directory
  changed = 7,  // the file is no longer the version that was asked for: open it again
  io_error = 8,
  no_memory = 9,  // try again, or ask for smaller pieces
  limit = 10,     // too many subscribers
};

// A sentence that says what the status means and what to do. Static memory.
std::string_view to_text(FileStatus status) noexcept;

struct RequestHeader {
  static constexpr std::size_t kSize = 40;
  static constexpr std::uint16_t kWantDigest = 1;  // fill in ReplyHeader::digest
  static constexpr std::uint16_t kNoInline = 2;    // open: no content, even if it is small
  std::uint16_t flags = 0;
  std::uint64_t request = 0;  // comes back in the reply
  std::uint64_t version = 0;  // fetch: of the file, from open
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

struct ReplyHeader {
  static constexpr std::size_t kSize = 64;
  static constexpr std::uint16_t kHasDigest = 1;
  std::uint16_t flags = 0;
  std::uint64_t request = 0;
  std::uint64_t version = 0;  // changes when the file does; never 0 for a file
  std::uint64_t size = 0;     // of the whole file
  std::uint64_t offset = 0;
  std::uint64_t length = 0;            // of the content in item 1
  std::array<std::byte, 16> digest{};  // XXH3, 128 bits, canonical form, of the content
};

std::array<std::byte, RequestHeader::kSize> encode(const RequestHeader& header) noexcept;
std::array<std::byte, ReplyHeader::kSize> encode(const ReplyHeader& header) noexcept;
// Empty if the size or the protocol version is wrong.
std::optional<RequestHeader> decode_request(ripc::Bytes bytes) noexcept;
std::optional<ReplyHeader> decode_reply(ripc::Bytes bytes) noexcept;

constexpr std::size_t kNotificationSize = 16;
std::array<std::byte, kNotificationSize> encode(const ripc_notification& notification) noexcept;
std::optional<ripc_notification> decode_notification(ripc::Bytes bytes) noexcept;

// XXH3, 128 bits, canonical form.
std::array<std::byte, 16> digest_of(ripc::Bytes bytes) noexcept;

}  // namespace cli::file
