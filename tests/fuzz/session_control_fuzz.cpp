// SPDX-License-Identifier: Apache-2.0
// Fuzzes the decoder of the frames of the socket transport's TCP connections. Any bytes are either refused or
// understood. Those that are understood encode to the same bytes again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "require.hpp"
#include "wire/session_control.hpp"

namespace {

using fuzz::require;

namespace session = ripc::internal::wire::session_control;

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const ripc::internal::Result<std::size_t> announced =
      session::frame_size(bytes.first(std::min(size, session::kPrefixSize)));
  if (announced.ok()) require(*announced >= session::kPrefixSize && *announced <= session::kMaxSize);
  const ripc::internal::Result<session::Frame> result = session::decode(bytes);
  if (!result.ok()) {
    const ripc::internal::Status& status = result.status();
    require(status == RIPC_CORRUPT ||
            (status == RIPC_VERSION_MISMATCH && bytes[4] != std::byte{session::kProtocolVersion}));
    return 0;
  }
  require(announced.ok() && *announced == size);
  require(std::to_integer<std::size_t>(bytes[5]) == result.value().index() + 1);
  if (const auto* carried = std::get_if<session::Control>(&result.value())) {
    require(!carried->packet.empty());
    require(carried->packet.data() + carried->packet.size() == bytes.data() + size);
  }
  if (const auto* carried = std::get_if<session::Streamed>(&result.value())) {
    require(!carried->datagram.empty());
    require(carried->datagram.data() + carried->datagram.size() == bytes.data() + size);
  }
  std::vector<std::byte> again;
  const ripc_status encoded =
      std::visit([&](const auto& frame) { return session::encode(frame, again); }, result.value());
  require(encoded == RIPC_OK && std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  require(!session::decode(bytes.first(size - 1)).ok());  // no frame is the beginning of another
  return 0;
}
