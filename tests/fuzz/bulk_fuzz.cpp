// SPDX-License-Identifier: Apache-2.0
// Fuzzes the decoder of bulk frames. Any header is either refused or understood, on either carrier. A header that is
// understood keeps every limit and encodes to the same bytes again. Bytes after the first header count as a trailer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "require.hpp"
#include "wire/bulk.hpp"

namespace {

using fuzz::require;

namespace bulk = ripc::internal::wire::bulk;

void check_trailer(std::span<const std::byte, bulk::kTrailerSize> bytes) {
  const std::optional<ripc_status> status = bulk::decode_trailer(bytes);
  if (!status) return;
  require(*status >= RIPC_OK && *status <= RIPC_SYSTEM);
  require(std::ranges::equal(bulk::encode_trailer(*status), bytes));
}

void check_header(std::span<const std::byte, bulk::kHeaderSize> header, bulk::Carrier carrier) {
  const ripc::internal::Result<bulk::Frame> result = bulk::decode(header, carrier);
  if (!result.ok()) {
    require(result.status() == RIPC_CORRUPT ||
            (result.status() == RIPC_VERSION_MISMATCH && header[0] != std::byte{bulk::kVersion}));
    return;
  }
  const bulk::Frame& frame = *result;
  const bool of_stream = frame.type == bulk::Type::pull_request || bulk::has_payload(frame.type);
  require(carrier == bulk::Carrier::stream ? frame.type <= bulk::Type::pushed : !of_stream);
  require(frame.length <= (frame.type == bulk::Type::pull_request ? bulk::kMaxSegment : bulk::kMaxPayload));
  require(frame.length == 0 || bulk::has_payload(frame.type) || frame.type == bulk::Type::pull_request);
  require(frame.offset + frame.length >= frame.offset);
  if (frame.type == bulk::Type::push) require(frame.offset + frame.length <= frame.value);
  std::array<std::byte, bulk::kHeaderSize> again;
  encode(frame, std::span(again));
  require(std::ranges::equal(again, header));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  if (bytes.size() < bulk::kHeaderSize) return 0;
  const auto header = bytes.first<bulk::kHeaderSize>();
  bytes = bytes.subspan(bulk::kHeaderSize);
  if (bytes.size() >= bulk::kTrailerSize) check_trailer(bytes.first<bulk::kTrailerSize>());
  check_header(header, bulk::Carrier::stream);
  check_header(header, bulk::Carrier::rdma);
  return 0;
}
