// SPDX-License-Identifier: Apache-2.0
#include "base/copy.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

namespace ripc::internal {
namespace {

using Copy = void (*)(std::byte*, const std::byte*, std::size_t) noexcept;

// The bytes around the copied ones keep their values, at every size and alignment that takes its own code path.
void expect_exact(Copy copy) {
  constexpr std::size_t kMargin = 32;
  constexpr std::size_t kLargest = 300;
  std::array<std::byte, kLargest + 2 * kMargin> from;
  for (std::size_t at = 0; at < from.size(); ++at) from[at] = static_cast<std::byte>(at * 7 + at / 256 + 1);
  for (std::size_t size = 0; size <= kLargest; ++size) {
    for (std::size_t shift = 0; shift < 8; ++shift) {
      std::array<std::byte, kLargest + 2 * kMargin> to;
      to.fill(std::byte{0});
      copy(to.data() + shift, from.data() + 8 - shift, size);
      for (std::size_t at = 0; at < to.size(); ++at) {
        const bool inside = at >= shift && at < shift + size;
        ASSERT_EQ(to[at], inside ? from[at - shift + 8 - shift] : std::byte{0}) << size << " bytes, byte " << at;
      }
    }
  }
}

TEST(Copy, SmallCopiesEveryByteAndNoOther) { expect_exact(&copy_small); }

}  // namespace
}  // namespace ripc::internal
