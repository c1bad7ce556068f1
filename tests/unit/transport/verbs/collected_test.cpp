// SPDX-License-Identifier: Apache-2.0
// What a thread exposes together and sends together, over a real device.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "../spi_calls.hpp"
#include "long_items.hpp"
#include "transport/verbs/datagram/datagram_channel.hpp"

namespace ripc::internal::verbs {
namespace {

class Collected : public LongItems {
 protected:
  void SetUp() override {
    LongItems::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (dynamic_cast<DatagramChannel*>(channel_.get()) == nullptr) GTEST_SKIP() << "this device has no datagrams";
    ASSERT_NO_FATAL_FAILURE(deliver(expose()));
    ASSERT_EQ(tally().remote_keys, 1u);
  }

  // Runs a transfer from the server's begin() to the end that the client sees.
  void deliver(const Item& item) {
    ASSERT_EQ(begin(item), RIPC_OK);
    ASSERT_EQ(pull(item, true), RIPC_OK);
    ASSERT_EQ(finish(item), RIPC_OK);
    ASSERT_EQ(outcome_of(item.transfer), RIPC_OK);
  }
  const Tally& tally() const { return *bulk_of(*client_).tally(); }
};

TEST_F(Collected, IsRungForOnceForAllThatIsOpenedAndOnceForAllThatIsSent) {
  constexpr std::size_t kItems = 6;
  const DatagramCounters sent = counters();
  const std::uint64_t doorbells = tally().doorbells;
  const std::uint64_t requests = tally().work_requests;
  std::vector<Item> items;
  for (std::size_t index = 0; index < kItems; ++index) {
    items.push_back(expose(true));
    const std::string text(100 + index, static_cast<char>('b' + index));
    const spi::Bytes packet = std::as_bytes(std::span(text));
    EXPECT_EQ(channel_->send({.kind = spi::Outgoing::Kind::announcement,
                              .more = true,
                              .packet = std::span(&packet, 1),
                              .transfer = items.back().transfer}),
              RIPC_OK);
  }
  EXPECT_EQ(tally().doorbells, doorbells);
  EXPECT_EQ(counters().doorbells, sent.doorbells);
  test::flush(*channel_);
  EXPECT_EQ(tally().doorbells - doorbells, 1u);
  EXPECT_EQ(tally().work_requests - requests, kItems * (devices_->devices().front()->windows ? 2 : 1));
  EXPECT_EQ(counters().doorbells - sent.doorbells, 1u);
  EXPECT_EQ(counters().work_requests - sent.work_requests, kItems);
  EXPECT_EQ(counters().inlined - sent.inlined, kItems);
  receive(1 + kItems);
  for (std::size_t index = 0; index < kItems; ++index) {
    EXPECT_EQ(sink_.packets[1 + index], std::string(100 + index, static_cast<char>('b' + index)));
    ASSERT_NO_FATAL_FAILURE(deliver(items[index]));
  }
  EXPECT_EQ(bulk_of(*client_).connections_made(), 1u);
}

TEST_F(Collected, LargePacketsAndMoreThanFitAreSent) {
  const std::size_t size = datagram_limit();
  for (std::size_t index = 0; index < DatagramSender::kMostMessages + 2; ++index)
    ASSERT_EQ(send(index % 2 == 0 ? size : 16, static_cast<char>('0' + index), true), RIPC_OK);
  test::flush(*channel_);
  receive(1 + DatagramSender::kMostMessages + 2);
  for (std::size_t index = 0; index < DatagramSender::kMostMessages + 2; ++index)
    EXPECT_EQ(sink_.packets[1 + index], std::string(index % 2 == 0 ? size : 16, static_cast<char>('0' + index)));
}

TEST_F(Collected, DelaysNoOtherThreadAndKeepsTheOrder) {
  ASSERT_EQ(send(8, 'b', true), RIPC_OK);
  std::thread([this] { ASSERT_EQ(send(8, 'c'), RIPC_OK); }).join();
  receive(3);
  EXPECT_EQ(sink_.packets[1], std::string(8, 'b'));
  EXPECT_EQ(sink_.packets[2], std::string(8, 'c'));
  ASSERT_EQ(send(8, 'd', true), RIPC_OK);
  test::flush(*channel_);
  receive(4);
  EXPECT_EQ(sink_.packets[3], std::string(8, 'd'));
}

TEST_F(Collected, APacketOfSeveralDatagramsWaitsForNothingAndKeepsTheOrder) {
  const std::string large(3 * datagram_limit(), 'f');
  ASSERT_EQ(send(8, 'e', true), RIPC_OK);
  ASSERT_EQ(send(large.size(), 'f', true), RIPC_OK);
  receive(3);
  EXPECT_EQ(sink_.packets[1], std::string(8, 'e'));
  EXPECT_EQ(sink_.packets[2], large);
}

// The device has not seen the request that binds the window.
TEST_F(Collected, ATransferThatIsWithdrawnBeforeItsWindowIsBoundCostsNoConnection) {
  const Item item = expose(true);
  EXPECT_EQ(test::revoke(*channel_, item.transfer), RIPC_REVOKED);
  const Item next = expose(true);
  test::flush(*channel_);
  ASSERT_NO_FATAL_FAILURE(deliver(next));
  EXPECT_EQ(bulk_of(*client_).connections_made(), 1u);
  EXPECT_EQ(bulk_of(*client_).connections_lost(), 0u);
}

}  // namespace
}  // namespace ripc::internal::verbs
