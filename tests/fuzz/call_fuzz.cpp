// SPDX-License-Identifier: Apache-2.0
// Fuzzes the decoder of calls. Any header is either refused or understood. One that is understood keeps every limit
// and encodes to the same bytes again.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "require.hpp"
#include "wire/call.hpp"

using fuzz::require;
namespace call = ripc::internal::wire::call;

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const ripc::internal::Result<call::Returned> returned = call::decode_returned(bytes);
  if (returned.ok()) {
    std::vector<std::byte> again(size);
    require(call::kReturnedSize + returned->bytes.size() == size);
    call::encode_returned(*returned, again.data());
    require(std::ranges::equal(again, bytes));
  }
  call::Header header;
  const ripc_status status = call::decode(bytes, header);
  if (status != RIPC_OK) {
    require(status == RIPC_CORRUPT || (status == RIPC_VERSION_MISMATCH && bytes[0] != std::byte{call::kVersion}));
    return 0;
  }
  const bool may_have_items = header.kind == call::Kind::request || header.kind == call::Kind::answer;
  require(may_have_items ? size >= call::kHeaderSize : size == call::kHeaderSize);
  const bool is_open = header.kind == call::Kind::open || header.kind == call::Kind::opened;
  if (is_open) require(std::has_single_bit(header.code) && header.code <= call::kMaxSlots);
  require((header.kind == call::Kind::state) == (header.state != call::State{}));
  if (header.kind == call::Kind::state) require(header.code <= RIPC_SYSTEM);
  require(header.time == 0 || header.kind == call::Kind::request ||
          (header.kind == call::Kind::answer && header.time == call::kLate));
  std::array<std::byte, call::kHeaderSize> encoded;
  call::encode(header, encoded.data());
  require(std::ranges::equal(encoded, bytes.first(call::kHeaderSize)));
  return 0;
}
