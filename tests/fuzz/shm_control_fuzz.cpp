// SPDX-License-Identifier: Apache-2.0
// Fuzzes the decoder of control messages: any bytes are either refused or understood, and what is understood encodes to
// the same bytes again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "require.hpp"
#include "wire/shm_control.hpp"

namespace {

using fuzz::require;

namespace control = ripc::internal::wire::shm_control;

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const ripc::internal::Result<control::Message> result = control::decode(bytes);
  if (!result.ok()) {
    const ripc::internal::Status& status = result.status();
    require(status == RIPC_CORRUPT ||
            (status == RIPC_VERSION_MISMATCH && bytes[0] != std::byte{control::kProtocolVersion}));
    return 0;
  }
  require(size <= control::kMaxSize && std::to_integer<std::size_t>(bytes[1]) == result.value().index() + 1);
  if (const auto* carried = std::get_if<control::Control>(&result.value())) {
    require(!carried->packet.empty());
    require(carried->packet.data() + carried->packet.size() == bytes.data() + size);
  }
  std::vector<std::byte> again;
  const ripc_status encoded =
      std::visit([&](const auto& message) { return control::encode(message, again); }, result.value());
  require(encoded == RIPC_OK && std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  require(!control::decode(bytes.first(size - 1)).ok());  // no message is the beginning of another
  return 0;
}
