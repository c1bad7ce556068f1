// SPDX-License-Identifier: Apache-2.0
// What a sender remembers of the transfers that it has announced to its peer.
#include "remote/bulk/exposure_table.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace ripc::internal::remote {
namespace {

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t index = 0; index < size; ++index) bytes[index] = static_cast<std::byte>(index * 7 + 1);
  return bytes;
}

constexpr std::uint64_t kOwner = 3;
constexpr Nanoseconds kLong = 3'600'000'000'000;

class AnnouncedTransfer : public ::testing::Test {
 protected:
  void SetUp() override {
    const spi::Exposure exposure{item_, nullptr};
    ASSERT_EQ(table_.expose(kOwner, {&exposure, 1}, {&descriptor_, 1}, transfer_), RIPC_OK);
  }
  bool tell() {
    const std::vector<spi::Bytes> ranges{spi::Bytes(packet_).first(10), spi::Bytes(packet_).subspan(10)};
    return table_.announced(transfer_, ranges);
  }
  // What is to be sent again `later` from now; `waits`: whether the peer has still not asked.
  std::vector<ExposureTable::Unrequested> due(Nanoseconds later, bool& waits) {
    std::vector<ExposureTable::Unrequested> found;
    waits = table_.find_unrequested(monotonic_now() + later, found);
    return found;
  }

  ExposureTable table_;
  const std::vector<std::byte> item_ = pattern(1000);
  const std::vector<std::byte> packet_ = pattern(100);
  wire::Descriptor descriptor_{};
  std::uint64_t transfer_ = 0;
};

TEST_F(AnnouncedTransfer, ThePacketIsRepeatedWithGrowingPausesUntilThePeerAsks) {
  ASSERT_TRUE(tell());
  bool waits = false;
  EXPECT_TRUE(due(0, waits).empty());
  EXPECT_TRUE(waits);
  const std::vector<ExposureTable::Unrequested> first = due(1'000'000'000, waits);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].owner, kOwner);
  EXPECT_EQ(first[0].packet, packet_);
  EXPECT_TRUE(due(1'000'000'000, waits).empty()) << "only just sent";
  EXPECT_EQ(due(kLong, waits).size(), 1u);
  EXPECT_EQ(table_.read(descriptor_.key, descriptor_.location, 0, 1).status, RIPC_OK);
  EXPECT_TRUE(due(2 * kLong, waits).empty());
  EXPECT_FALSE(waits);
}

TEST_F(AnnouncedTransfer, APeerThatAsksAtOnceGetsNoRepetition) {
  EXPECT_EQ(table_.read(descriptor_.key, descriptor_.location, 0, 1).status, RIPC_OK);
  EXPECT_FALSE(tell());
  bool waits = true;
  EXPECT_TRUE(due(kLong, waits).empty());
  EXPECT_FALSE(waits);
}

TEST_F(AnnouncedTransfer, IsNotAnnouncedAgainOnceItHasEnded) {
  ASSERT_TRUE(tell());
  EXPECT_EQ(table_.revoke(transfer_), RIPC_REVOKED);
  bool waits = true;
  EXPECT_TRUE(due(kLong, waits).empty());
  EXPECT_FALSE(waits);
}

class TransferKey final : public RemoteAccess {
 public:
  void end() noexcept override { has_ended = true; }
  bool is_open() const noexcept { return !has_ended; }
  bool has_ended = false;
};

class OpenTransfer : public AnnouncedTransfer {
 protected:
  void SetUp() override {
    AnnouncedTransfer::SetUp();
    ASSERT_EQ(admit(key_), RIPC_OK);
  }
  ripc_status admit(const std::shared_ptr<TransferKey>& key) {
    return table_.admit<TransferKey>(
        descriptor_.key, descriptor_.location, true,
        [&](const ExposureTable::Item&, const TransferKey& former) { return &former == key.get(); },
        [&](const ExposureTable::Item&) {
          ++made_;
          return Result(key);
        });
  }
  // The test holds it, too, like a thread that ends a connection at the same time.
  const std::shared_ptr<TransferKey> key_ = std::make_shared<TransferKey>();
  int made_ = 0;
};

TEST_F(OpenTransfer, IsClosedToTheDeviceWhenThePeerHasFinishedIt) {
  ExposureTable::Ending ending;
  EXPECT_EQ(table_.answer_to(descriptor_.key, descriptor_.location, RIPC_OK, ending), RIPC_OK);
  (void)ExposureTable::complete(std::move(ending));
  EXPECT_TRUE(key_->has_ended);
  EXPECT_EQ(table_.status(transfer_), RIPC_OK);
}

// The answer is sent first, so that an owner that exits as soon as it sees the end does not take the answer with it.
TEST_F(OpenTransfer, EndsForItsOwnerOnlyWhenTheAnswerIsOnItsWay) {
  ExposureTable::Ending ending;
  EXPECT_EQ(table_.answer_to(descriptor_.key, descriptor_.location, RIPC_OK, ending), RIPC_OK);
  EXPECT_TRUE(ending.holds(descriptor_.key));
  EXPECT_FALSE(ending.holds(descriptor_.key + 1));
  EXPECT_FALSE(key_->has_ended);
  EXPECT_EQ(table_.status(transfer_), RIPC_PENDING);
  EXPECT_FALSE(ExposureTable::complete(std::move(ending)).watched);
  EXPECT_TRUE(key_->has_ended);
  ExposureTable::Ending again;
  EXPECT_EQ(table_.answer_to(descriptor_.key, descriptor_.location, RIPC_OK, again), RIPC_OK) << "the same answer";
  EXPECT_FALSE(again.holds(descriptor_.key)) << "with nothing to see";
  EXPECT_FALSE(ExposureTable::complete(std::move(again)).watched);
  EXPECT_EQ(table_.status(transfer_), RIPC_OK);
  ExposureTable::Ending other;
  EXPECT_EQ(table_.answer_to(descriptor_.key + kMaxTransfers, descriptor_.location, RIPC_OK, other), RIPC_REVOKED);
}

TEST_F(OpenTransfer, IsClosedToTheDeviceWhenItIsWithdrawn) {
  EXPECT_EQ(table_.revoke(transfer_), RIPC_REVOKED);
  EXPECT_TRUE(key_->has_ended);
}

TEST_F(OpenTransfer, IsClosedToTheDeviceWhenTheSessionEnds) {
  table_.died();
  EXPECT_TRUE(key_->has_ended);
}

// One remote key is open over each connection.
TEST_F(OpenTransfer, MayBeOpenToSeveralDevices) {
  const auto next = std::make_shared<TransferKey>();
  EXPECT_EQ(admit(next), RIPC_OK);
  EXPECT_EQ(admit(key_), RIPC_OK);
  EXPECT_EQ(admit(next), RIPC_OK);
  EXPECT_EQ(made_, 2) << "each stays open";
  EXPECT_FALSE(key_->has_ended);
  EXPECT_EQ(table_.revoke(transfer_), RIPC_REVOKED);
  EXPECT_TRUE(key_->has_ended);
  EXPECT_TRUE(next->has_ended);
}

TEST_F(OpenTransfer, IsOpenedAnewIfTheRemoteKeyHasEnded) {
  key_->end();
  EXPECT_EQ(admit(key_), RIPC_OK);
  EXPECT_EQ(made_, 2);
}

}  // namespace
}  // namespace ripc::internal::remote
