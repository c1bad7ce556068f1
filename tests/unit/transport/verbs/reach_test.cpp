// SPDX-License-Identifier: Apache-2.0
// Where TCP gets through and RDMA does not: which side notices, and what the sender and the receiver learn.
#include <errno.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "../spi_calls.hpp"
#include "nodes.hpp"
#include "remote/link/link_source.hpp"
#include "transport/verbs/datagram/datagram_channel.hpp"

namespace ripc::internal::verbs {
namespace {

class Reach : public Nodes {
 protected:
  Reach() : Nodes(patience_of(2'000'000'000)) {}
  void SetUp() override {
    Nodes::SetUp();
    if (IsSkipped()) return;
    if (!has_datagrams()) GTEST_SKIP() << "this device has no datagrams";
  }
  // From now on, the node's queue pair that receives greetings loses everything that comes to it.
  void deafen(Node& node) { fail(sender_of(node)->pair(), IBV_QPS_RESET); }
  Status connected(Node& client) {
    return test::connect(client.transport(), server_->transport().address(), 7, Deadline::after(kLimit)).status();
  }
};

TEST_F(Reach, APeerThatDatagramsDoNotReachIsRefusedAndNotTriedAgainForAWhile) {
  deafen(*server_);
  Node other(devices_, options_);
  const Status first = connected(other);
  EXPECT_EQ(first.code(), RIPC_PEER_DEAD) << first.text();
  EXPECT_NE(std::string(first.text()).find("4791"), std::string::npos) << first.text();
  const std::uint64_t sent = sender_of(other)->counters().work_requests;
  const Status second = connected(other);
  EXPECT_EQ(second.code(), RIPC_PEER_DEAD) << second.text();
  EXPECT_EQ(second.text(), first.text()) << "the reason is known";
  EXPECT_EQ(sender_of(other)->counters().work_requests, sent) << "nothing was tried";
}

TEST_F(Reach, ALinkIsGivenUpWhenItsReceiverIsNotReachedAnyMoreButNotWhenItIsBusy) {
  while (send(8, 'a') == RIPC_OK) {
  }
  auto& link = dynamic_cast<DatagramChannel&>(*channel_);
  const Deadline deadline = Deadline::after(2 * kLimit);
  const auto ask = [&] {
    (void)channel_->has_room(true);
    std::this_thread::yield();
  };
  // More probes than it takes to give the link up.
  constexpr std::uint64_t kMany = 20;
  while (link.probes() < kMany && channel_->alive() && !deadline.expired()) ask();
  ASSERT_TRUE(channel_->alive()) << "its responder answers";
  ASSERT_GE(link.probes(), kMany);
  deafen(*server_);
  while (channel_->alive() && !deadline.expired()) ask();
  EXPECT_FALSE(channel_->alive());
  EXPECT_NE(std::string(connected(*client_).text()).find("4791"), std::string::npos);
}

TEST_F(Reach, AFailedConnectionEndsTheTransferAndLetsItsReceiverGo) {
  auto* const library = const_cast<VerbsLibrary*>(devices_->library().get());
  const auto connect_of_device = library->connect;
  library->connect = [](rdma_cm_id*, rdma_conn_param*) {
    errno = ENETUNREACH;
    return -1;
  };
  ASSERT_EQ(send(8, 'a'), RIPC_OK);
  ASSERT_NO_FATAL_FAILURE(receive(1));
  std::vector<std::byte> bytes(std::size_t{1} << 20), window(bytes.size());
  LongItem item;
  ASSERT_NO_FATAL_FAILURE(item.begin(*client_, *channel_, *sink_.source, bytes, window.data()));
  spi::Pull& pull = item.pull;
  EXPECT_EQ(sink_.source->pull(pull), RIPC_PENDING);
  EXPECT_EQ(outcome_of(item.transfer), RIPC_PEER_DEAD);
  EXPECT_FALSE(channel_->alive()) << "the next send takes another path";
  const Deadline deadline = Deadline::after(kLimit);
  const auto& source = dynamic_cast<const remote::LinkSource&>(*sink_.source);
  while (!source.dead() && !deadline.expired()) (void)port_->poll(sink_, 64);
  EXPECT_TRUE(source.dead());
  sink_.source->abandon(pull);
  library->connect = connect_of_device;
}

}  // namespace
}  // namespace ripc::internal::verbs
