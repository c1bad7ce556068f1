// SPDX-License-Identifier: Apache-2.0
// Two peers, and a long message from the client to the server.
#pragma once

#include "harness.hpp"

namespace conformance {

class TicketTest : public PairTest {
 protected:
  void SetUp() override {
    PairTest::SetUp();
    data_ = pattern(100'000, 1);
    window_.resize(data_.size());
  }
  void post() { ASSERT_EQ(ripc_window_post(server_.get(), window_.data(), window_.size(), 1), RIPC_OK); }
  Ticket send_data(const ripc_send_options* options = nullptr) {
    return send_long(client_, server_id(), {item(data_, RIPC_ITEM_LONG)}, options);
  }

  Bytes data_;
  Bytes window_;
};

}  // namespace conformance
