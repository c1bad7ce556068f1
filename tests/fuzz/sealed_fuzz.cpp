// SPDX-License-Identifier: Apache-2.0
// Fuzzes the code that opens sealed records and datagrams. A peer without the key gets nothing through, and what the
// peer with the key sealed still opens afterwards. The first byte chooses the suite and whether the text is hidden.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "require.hpp"
#include "security/record.hpp"
#include "security/sealed_datagram.hpp"

namespace {

using fuzz::require;
using namespace ripc::internal::security;  // NOLINT(google-build-using-namespace): a test of it

const Secret& root() {
  static const Secret secret = Secret::random();
  return secret;
}

void try_datagram(Protection protection, std::span<const std::byte> input) {
  DatagramOpener opener(protection, root());
  std::vector<std::byte> bytes(input.begin(), input.end());
  std::span<std::byte> text;
  require(opener.open(bytes, text) == DatagramOpener::Verdict::forged && text.empty());
  DatagramSealer sealer(protection, root());
  std::array<std::byte, kSealedOverhead + 1> good{};
  require(sealer.seal(good.data(), 1));
  require(opener.open(good, text) == DatagramOpener::Verdict::fresh && text.size() == 1);
}

void try_record(Protection protection, std::span<const std::byte> input) {
  if (input.size() < kRecordHead) return;
  const ripc::internal::Result<std::size_t> size = RecordOpener::text_size(input.first<kRecordHead>());
  if (!size.ok()) return;
  require(*size >= 1 && *size <= kMaxRecordText);
  RecordOpener opener(protection, root());
  std::vector<std::byte> bytes(kRecordOverhead + *size);
  std::copy_n(input.begin(), std::min(input.size(), bytes.size()), bytes.begin());
  require(!opener.open(bytes.data()));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const std::uint32_t choice = std::to_integer<std::uint32_t>(bytes[0]);
  const Protection protection{.suite = choose_suite(own_suites(), choice % 2 == 0 ? 3 : 2), .hides = choice % 4 < 2};
  try_datagram(protection, bytes.subspan(1));
  try_record(protection, bytes.subspan(1));
  return 0;
}
