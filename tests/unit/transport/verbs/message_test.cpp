// SPDX-License-Identifier: Apache-2.0
// Frames of one RDMA connection: over a real device, both ends in this process.
#include <gtest/gtest.h>

#include "connected_ends.hpp"

namespace ripc::internal::verbs {
namespace {

class Messages : public ConnectedEnds {
 protected:
  // Sends many times more frames than there are buffers on either side.
  void expect_all_in_order() {
    constexpr std::size_t kFrames = 8 * QueuePairConnection::kSends;
    for (std::uint64_t id = 1; id <= kFrames; ++id)
      ASSERT_TRUE(owner_->send({.type = wire::bulk::Type::remote_key, .id = id, .key = 7}));
    ASSERT_TRUE(peer_ends_->heard(kFrames));
    const std::vector<wire::bulk::Frame> frames = peer_ends_->frames();
    for (std::uint64_t id = 1; id <= kFrames; ++id) ASSERT_EQ(frames[id - 1].id, id);
  }
};

// A device may have less room for inline data in its work requests, or none.
TEST_F(Messages, ComeInOrderHoweverLittleTheDeviceTakesInline) {
  for (const DevicePort& port : devices_->ports()) {
    for (const std::uint32_t most_inline :
         {QueuePairConnection::kMostInline, QueuePairConnection::kMostInline - 8, 0u}) {
      SCOPED_TRACE(port.device->name + ", inline " + std::to_string(most_inline));
      most_inline_ = most_inline;
      ASSERT_NO_FATAL_FAILURE(connect(port));
      expect_all_in_order();
      if (HasFatalFailure()) return;
      disconnect();
    }
  }
}

}  // namespace
}  // namespace ripc::internal::verbs
