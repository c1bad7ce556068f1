// SPDX-License-Identifier: Apache-2.0
// The return buffers that a peer may write.
#include "remote/bulk/grant_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace ripc::internal::remote {
namespace {

class CountedKey final : public RemoteAccess {
 public:
  void end() noexcept override { has_ended = true; }
  bool has_ended = false;
};

// A return buffer that the peer's device may write. The test holds the remote key, too, like a thread that ends a
// connection at the same time.
class OpenGrant : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(table_.grant(kOwner, memory_, grant_), RIPC_OK);
    const std::shared_ptr<Destination> destination = table_.begin_frame(&connection_, frame());
    ASSERT_NE(destination, nullptr);
    const std::lock_guard lock(destination->mutex);
    destination->let_in(key_);
  }
  wire::bulk::Frame frame() const {
    return {.type = wire::bulk::Type::ask_write,
            .id = 1,
            .key = grant_.key,
            .location = grant_.location,
            .value = memory_.size()};
  }

  static constexpr std::uint64_t kOwner = 3;
  GrantTable table_;
  std::array<std::byte, 64> memory_{};
  const int connection_ = 0;
  wire::Grant grant_{};
  const std::shared_ptr<CountedKey> key_ = std::make_shared<CountedKey>();
};

TEST_F(OpenGrant, IsClosedToTheDeviceWhenTheOwnerEndsIt) {
  EXPECT_EQ(table_.end_grant(grant_), RIPC_EMPTY);
  EXPECT_TRUE(key_->has_ended);
}

TEST_F(OpenGrant, IsClosedToTheDeviceWhenItIsWritten) {
  EXPECT_EQ(table_.complete(&connection_, frame()), RIPC_OK);
  EXPECT_TRUE(key_->has_ended);
  EXPECT_EQ(table_.end_grant(grant_), RIPC_OK);
}

TEST_F(OpenGrant, IsClosedToTheDeviceBeforeAnotherConnectionMayClaimIt) {
  table_.connection_lost(&connection_);
  EXPECT_TRUE(key_->has_ended);
  EXPECT_NE(table_.begin_frame(&key_, frame()), nullptr);
}

}  // namespace
}  // namespace ripc::internal::remote
