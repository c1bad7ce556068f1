// SPDX-License-Identifier: Apache-2.0
// Fuzzes the decoder of UDP datagrams: any bytes are either refused or understood, and what is understood encodes to
// the same header again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "require.hpp"
#include "wire/datagram.hpp"

namespace {

using fuzz::require;

namespace datagram = ripc::internal::wire::datagram;

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  datagram::Header header;
  const ripc_status status = datagram::decode(bytes, header);
  if (status != RIPC_OK) {
    require(status == RIPC_CORRUPT || (status == RIPC_VERSION_MISMATCH && bytes[0] != std::byte{1}));
    return 0;
  }
  require(size >= datagram::kHeaderSize);
  require(header.kind == datagram::Kind::multicast ||
          (header.kind == datagram::Kind::data) == (size > datagram::kHeaderSize));
  require(header.kind != datagram::Kind::credit || header.credit_link != 0);
  datagram::HeaderBytes again;
  datagram::encode(header, again);
  require(std::equal(again.begin(), again.end(), bytes.begin()));
  require(datagram::decode(bytes.first(datagram::kHeaderSize - 1), header) == RIPC_CORRUPT);
  return 0;
}
