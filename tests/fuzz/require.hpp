// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace fuzz {

// Kept in builds without assert(); the fuzzer reports the input that led here.
inline void require(bool condition) {
  if (!condition) std::abort();
}

// Chooses one in `many` inputs, for checks that take long. The choice depends only on the input.
inline bool is_one_in(std::uint64_t many, std::span<const std::uint8_t> input) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint8_t byte : input) hash = (hash ^ byte) * 0x100000001b3;
  return (hash >> 32) % many == 0;
}

}  // namespace fuzz
