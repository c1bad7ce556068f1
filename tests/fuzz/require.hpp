// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace fuzz {

// Kept in builds without assert(); the fuzzer reports the input that led here.
inline void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace fuzz
