// SPDX-License-Identifier: Apache-2.0
#include "file/file_protocol.hpp"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace cli::file {
namespace {

void put(std::byte* to, std::uint64_t value, std::size_t size) noexcept {
  for (std::size_t index = 0; index < size; ++index) to[index] = static_cast<std::byte>(value >> (8 * index));
}

std::uint64_t get(const std::byte* from, std::size_t size) noexcept {
  std::uint64_t value = 0;
  for (std::size_t index = 0; index < size; ++index)
    value |= static_cast<std::uint64_t>(std::to_integer<std::uint8_t>(from[index])) << (8 * index);
  return value;
}

}  // namespace

std::string_view to_text(FileStatus status) noexcept {
  switch (status) {
    case FileStatus::ok:
      return "The file is here.";
    case FileStatus::bad_request:
      return "The service did not understand the request: use the same version of ripc on both sides.";
    case FileStatus::no_such_file:
      return "The service has no such file: check the path, which is relative to the served directory.";
    case FileStatus::no_permission:
      return "The service may not read this file: check the file's permissions on the service's side.";
    case FileStatus::is_directory:
      return "This is a directory: name a file in it.";
    case FileStatus::not_regular:
      return "This is not a regular file, and the service gives out nothing else.";
    case FileStatus::outside:
      return "This path leaves the served directory, which the service does not allow.";
    case FileStatus::changed:
      return "The file changes while it is read: try again when it is quiet.";
    case FileStatus::io_error:
      return "The service could not read the file: look at its standard error.";
    case FileStatus::no_memory:
      return "The service has no memory for this piece: try again, or with a smaller --chunk.";
    case FileStatus::limit:
      return "The service has as many subscribers as it takes.";
  }
  return "The service gave an answer of an unknown kind: use the same version of ripc on both sides.";
}

std::array<std::byte, RequestHeader::kSize> encode(const RequestHeader& header) noexcept {
  std::array<std::byte, RequestHeader::kSize> bytes{};
  put(&bytes[0], kProtocolVersion, 2);
  put(&bytes[2], header.flags, 2);
  put(&bytes[8], header.request, 8);
  put(&bytes[16], header.version, 8);
  put(&bytes[24], header.offset, 8);
  put(&bytes[32], header.length, 8);
  return bytes;
}

std::array<std::byte, ReplyHeader::kSize> encode(const ReplyHeader& header) noexcept {
  std::array<std::byte, ReplyHeader::kSize> bytes{};
  put(&bytes[0], kProtocolVersion, 2);
  put(&bytes[2], header.flags, 2);
  put(&bytes[8], header.request, 8);
  put(&bytes[16], header.version, 8);
  put(&bytes[24], header.size, 8);
  put(&bytes[32], header.offset, 8);
  put(&bytes[40], header.length, 8);
  std::memcpy(&bytes[48], header.digest.data(), header.digest.size());
  return bytes;
}

std::optional<RequestHeader> decode_request(ripc::Bytes bytes) noexcept {
  if (bytes.size() != RequestHeader::kSize || get(&bytes[0], 2) != kProtocolVersion) return std::nullopt;
  RequestHeader header;
  header.flags = static_cast<std::uint16_t>(get(&bytes[2], 2));
  header.request = get(&bytes[8], 8);
  header.version = get(&bytes[16], 8);
  header.offset = get(&bytes[24], 8);
  header.length = get(&bytes[32], 8);
  return header;
}

std::optional<ReplyHeader> decode_reply(ripc::Bytes bytes) noexcept {
  if (bytes.size() != ReplyHeader::kSize || get(&bytes[0], 2) != kProtocolVersion) return std::nullopt;
  ReplyHeader header;
  header.flags = static_cast<std::uint16_t>(get(&bytes[2], 2));
  header.request = get(&bytes[8], 8);
  header.version = get(&bytes[16], 8);
  header.size = get(&bytes[24], 8);
  header.offset = get(&bytes[32], 8);
  header.length = get(&bytes[40], 8);
  std::memcpy(header.digest.data(), &bytes[48], header.digest.size());
  return header;
}

std::array<std::byte, kNotificationSize> encode(const ripc_notification& notification) noexcept {
  std::array<std::byte, kNotificationSize> bytes{};
  put(&bytes[0], notification.service, 8);
  put(&bytes[8], notification.handle, 8);
  return bytes;
}

std::optional<ripc_notification> decode_notification(ripc::Bytes bytes) noexcept {
  if (bytes.size() != kNotificationSize) return std::nullopt;
  return ripc_notification{get(&bytes[0], 8), get(&bytes[8], 8)};
}

std::array<std::byte, 16> digest_of(ripc::Bytes bytes) noexcept {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::array<std::byte, 16> digest{};
  static_assert(sizeof(canonical.digest) == sizeof(digest));
  std::memcpy(digest.data(), canonical.digest, digest.size());
  return digest;
}

}  // namespace cli::file
