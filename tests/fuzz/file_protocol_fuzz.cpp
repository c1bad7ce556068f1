// SPDX-License-Identifier: Apache-2.0
// Fuzzes the decoders of the file service's protocol: any bytes are refused or understood, and what is understood
// encodes to the same bytes again.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "libripc/cli/file/file_protocol.hpp"
#include "require.hpp"

namespace {

using fuzz::require;

// `reserved`: bytes 4 to 7 are reserved; a reader ignores them, and a writer leaves them 0.
template <typename Decoded>
bool check(ripc::Bytes bytes, const Decoded& decoded, bool reserved) {
  if (!decoded) return false;
  const auto again = cli::file::encode(*decoded);
  require(again.size() == bytes.size());
  for (std::size_t index = 0; index < again.size(); ++index)
    require(again[index] == bytes[index] || (reserved && index >= 4 && index < 8));
  return true;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ripc::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  const int understood = static_cast<int>(check(bytes, cli::file::decode_request(bytes), true)) +
                         static_cast<int>(check(bytes, cli::file::decode_reply(bytes), true)) +
                         static_cast<int>(check(bytes, cli::file::decode_notification(bytes), false));
  require(understood <= 1);
  std::uint32_t status = 0;
  for (const std::byte byte : bytes.first(std::min<std::size_t>(size, 4)))
    status = status << 8 | std::to_integer<std::uint32_t>(byte);
  require(!cli::file::to_text(static_cast<cli::file::FileStatus>(status)).empty());
  return 0;
}
