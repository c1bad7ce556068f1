// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/finish_table.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/clock.hpp"

namespace ripc::internal::remote {
namespace {

using wire::bulk::Frame;
using wire::bulk::Type;

class Connection final : public FrameSender {
 public:
  using FrameSender::send;
  bool send(std::span<const Frame> frames) noexcept override {
    if (lost) return false;
    sent.insert(sent.end(), frames.begin(), frames.end());
    return true;
  }
  bool enqueue(const Frame& frame) noexcept override { return send(frame); }
  void flush() noexcept override {}
  std::vector<Frame> sent;
  bool lost = false;
};

class Finishes : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(table_.begin(kItem), RIPC_OK); }
  ripc_status finish(ripc_status status = RIPC_OK) {
    bool unsent = false;
    const ripc_status outcome = table_.finish(kItem, status, events_, connection_, unsent);
    EXPECT_FALSE(unsent);
    return outcome;
  }
  void answer(ripc_status outcome) {
    table_.answered({.type = Type::finished, .key = kItem.key, .location = kItem.location, .value = outcome});
  }
  bool is_woken() const { return events_.sleep(Deadline::after(0), monotonic_now()) == RIPC_OK; }
  void expect_told(std::vector<ripc_status> statuses) const {
    ASSERT_EQ(connection_->sent.size(), statuses.size());
    for (std::size_t index = 0; index < statuses.size(); ++index) {
      const Frame& frame = connection_->sent[index];
      EXPECT_EQ(frame.type, Type::finish);
      EXPECT_EQ(frame.key, kItem.key);
      EXPECT_EQ(frame.location, kItem.location);
      EXPECT_EQ(frame.value, static_cast<std::uint64_t>(statuses[index]));
    }
  }

  static constexpr wire::Descriptor kItem{.key = 1 << 12 | 3, .location = 0x500, .length = 10};
  EventSet events_ = EventSet::create().value();
  std::shared_ptr<Connection> connection_ = std::make_shared<Connection>();
  FinishTable table_;
};

TEST_F(Finishes, AreReportedOnceAndTheAnswerWakes) {
  EXPECT_EQ(finish(), RIPC_PENDING);
  EXPECT_EQ(finish(), RIPC_PENDING);
  expect_told({RIPC_OK});
  EXPECT_FALSE(is_woken());
  answer(RIPC_OK);
  EXPECT_TRUE(is_woken());
  EXPECT_EQ(finish(), RIPC_OK);
}

TEST_F(Finishes, ReportedEarlyAreNotReportedAgain) {
  ASSERT_TRUE(table_.tell_early(kItem, events_, *connection_));
  EXPECT_FALSE(table_.tell_early(kItem, events_, *connection_));
  EXPECT_TRUE(table_.is_owed(*connection_));
  EXPECT_EQ(finish(), RIPC_PENDING);
  expect_told({RIPC_OK});
}

TEST_F(Finishes, ReportedEarlyWakeWithTheOutcome) {
  ASSERT_TRUE(table_.tell_early(kItem, events_, *connection_));
  answer(RIPC_REVOKED);
  EXPECT_TRUE(is_woken());
  EXPECT_EQ(finish(), RIPC_REVOKED);
}

TEST_F(Finishes, CannotBeReportedEarlyWhenTheyWereReportedOrOverALostConnection) {
  connection_->lost = true;
  EXPECT_FALSE(table_.tell_early(kItem, events_, *connection_));
  connection_->lost = false;
  EXPECT_EQ(finish(RIPC_NO_WINDOW), RIPC_PENDING);
  EXPECT_FALSE(table_.tell_early(kItem, events_, *connection_));
  expect_told({RIPC_NO_WINDOW});
}

// The first report may not have reached the sender.
TEST_F(Finishes, ReportedEarlyAreReportedAgainOverTheNextConnection) {
  ASSERT_TRUE(table_.tell_early(kItem, events_, *connection_));
  table_.connection_lost(*connection_);
  EXPECT_TRUE(table_.has_backlog());
  const auto next = std::make_shared<Connection>();
  table_.tell(*next);
  ASSERT_EQ(next->sent.size(), 1u);
  EXPECT_EQ(next->sent[0], connection_->sent[0]);
}

// The lost connection has already ended its remote key.
TEST_F(Finishes, ReportedEarlyEndARemoteKeyOfTheirConnectionOnly) {
  constexpr std::uint32_t kRemoteKey = 0x1234;
  ASSERT_TRUE(table_.tell_early(kItem, events_, *connection_, kRemoteKey));
  EXPECT_EQ(connection_->sent.at(0).id, kRemoteKey);
  table_.connection_lost(*connection_);
  const auto next = std::make_shared<Connection>();
  table_.tell(*next);
  EXPECT_EQ(next->sent.at(0).id, 0u);
}

TEST_F(Finishes, OfAReceiverThatIsGoneWakeNoOne) {
  ASSERT_TRUE(table_.tell_early(kItem, events_, *connection_));
  table_.forget(events_);
  answer(RIPC_OK);
  EXPECT_FALSE(is_woken());
}

}  // namespace
}  // namespace ripc::internal::remote
