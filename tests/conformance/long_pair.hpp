// SPDX-License-Identifier: Apache-2.0
// Two peers; the server takes long messages into its windows.
#pragma once

#include "harness.hpp"

namespace conformance {

class LongPairTest : public PairTest {
 protected:
  void post(void* data, std::size_t size, std::uint64_t cookie = 0) {
    ASSERT_EQ(ripc_window_post(server_.get(), data, size, cookie), RIPC_OK);
  }
  void post(Bytes& window, std::uint64_t cookie = 0) { post(window.data(), window.size(), cookie); }
};

}  // namespace conformance
