// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of cluster key files. Any text is refused or understood. A refusal repeats nothing that may be a
// secret. An understood key verifies what it has signed, and the signer that it names is in the text.
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/cluster_key.hpp"
#include "base/hexadecimal.hpp"
#include "require.hpp"

namespace {

using fuzz::require;

// Whether the message repeats more digits of the text than anyone could guess.
bool tells(std::string_view message, std::string_view text) {
  constexpr std::size_t kPart = 16;
  for (std::size_t at = 0; at + kPart <= text.size(); ++at) {
    const std::string_view part = text.substr(at, kPart);
    const bool are_digits = part.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
    if (are_digits && message.find(part) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto keys = ripc::internal::ClusterKeys::parse(text, "FILE");
  if (!keys.ok()) {
    require(keys.status() == RIPC_INVALID_ARGUMENT);
    require(!tells(keys.status().text(), text));
    return 0;
  }
  require((*keys)->size() == 1 || (*keys)->size() == 2);
  const std::array bytes{std::byte{1}, std::byte{2}};
  auto mac = (*keys)->mac("fuzz", {bytes});
  require((*keys)->verify("fuzz", {bytes}, mac));
  require(!(*keys)->verify("other", {bytes}, mac));
  mac[0] ^= std::byte{1};
  require(!(*keys)->verify("fuzz", {bytes}, mac));
  if (const auto& signer = (*keys)->signer(); signer) {
    std::string lower(text);
    for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    require(lower.find("signer ed25519:" + ripc::internal::hexadecimal(*signer)) != std::string::npos);
  }
  return 0;
}
