// SPDX-License-Identifier: Apache-2.0
// Queues of a real device that stop with an error. The transport handles the event that the device reports, and the
// traffic goes on.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "nodes.hpp"
#include "support/waiting.hpp"
#include "transport/verbs/datagram/verbs_port.hpp"

namespace ripc::internal::verbs {
namespace {

class BrokenQueues : public Nodes {
 protected:
  // The peer's time-out is an hour.
  BrokenQueues() : Nodes(patience_of(std::uint64_t{3600} * 1'000'000'000)) {}
  void SetUp() override {
    Nodes::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!has_datagrams()) GTEST_SKIP() << "this device has no datagrams";
    ASSERT_EQ(send(8, 'a'), RIPC_OK);
    ASSERT_NO_FATAL_FAILURE(receive(1));
  }
  // Reports what a device reports when it has lost this completion queue, or stopped this queue pair.
  void lose(ibv_cq* queue) {
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = queue;
    device().events.tell(event);
  }
  void stop(ibv_qp* pair) {
    fail(pair);
    ibv_async_event event{};
    event.event_type = IBV_EVENT_QP_FATAL;
    event.element.qp = pair;
    device().events.tell(event);
  }
  const Device& device() const { return *devices_->devices().front(); }
  std::vector<ibv_qp*> pairs_of_service() { return dynamic_cast<VerbsPort&>(*port_).pairs(); }

  // The link ends, and a new one works over other queues.
  void is_replaced() {
    EXPECT_TRUE(support::eventually([&] {
      (void)port_->poll(sink_, 64);
      return !channel_->alive();
    }));
    sink_.packets.clear();
    ASSERT_TRUE(support::eventually([&] { return connect(); }));
    ASSERT_EQ(send(8, 'b'), RIPC_OK);
    ASSERT_NO_FATAL_FAILURE(receive(1));
    EXPECT_EQ(sink_.packets.back(), std::string(8, 'b'));
  }
};

TEST_F(BrokenQueues, TheDeviceSaysThatACompletionQueueWasOverrun) {
  const DevicePort port = devices_->ports().front();
  Result<std::unique_ptr<DatagramQueue>> queue = DatagramQueue::create(port, port.device, {.sends = 1, .receives = 1});
  ASSERT_TRUE(queue.ok()) << queue.status().text();
  ibv_ah_attr attributes{};
  attributes.port_num = port.number;
  attributes.is_global = 1;
  attributes.grh.sgid_index = port.gid_index;
  attributes.grh.dgid = port.gid;
  const AddressHandle handle = create_handle(port.device, attributes);
  ASSERT_NE(handle, nullptr);
  // Each send is done before the next one, and no completion is taken out of the completion queue.
  const bool is_lost = support::eventually([&] {
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.ud = {.ah = handle.get(), .remote_qpn = 0xffffff, .remote_qkey = 1};
    ibv_send_wr* bad = nullptr;
    (void)ibv_post_send((*queue)->pair(), &request, &bad);
    return (*queue)->is_broken();
  });
  EXPECT_TRUE(is_lost) << "the responder reads what the device says";
}

TEST_F(BrokenQueues, OfASenderAreMadeAnewWithItsLinks) {
  for (const bool of_sends : {true, false}) {
    ibv_qp* const pair = sender_of(*client_)->pair();
    lose(of_sends ? pair->send_cq : pair->recv_cq);
    ASSERT_NO_FATAL_FAILURE(is_replaced());
  }
}

TEST_F(BrokenQueues, OfAServiceAreMadeAnewWithItsLinks) {
  const std::vector<ibv_qp*> before = pairs_of_service();
  const std::uint32_t number = before.front()->qp_num;
  lose(before.front()->recv_cq);
  ASSERT_NO_FATAL_FAILURE(is_replaced());
  EXPECT_TRUE(support::eventually([&] {
    (void)port_->poll(sink_, 64);
    return pairs_of_service().size() == 1;
  })) << "the former ones are given back";
  EXPECT_NE(pairs_of_service().front()->qp_num, number);
}

TEST_F(BrokenQueues, DoNotDisturbOthersOnTheSameDevice) {
  Node other(devices_, options_);
  const auto undisturbed = connect(other);
  ASSERT_NE(undisturbed, nullptr);
  lose(sender_of(*client_)->pair()->send_cq);
  ASSERT_NO_FATAL_FAILURE(is_replaced());
  EXPECT_TRUE(undisturbed->alive());
}

// The next completion of a send would come only after many sends. The completion of a credit buffer may be seen
// earlier.
TEST_F(BrokenQueues, AQueuePairThatTheDeviceHasStoppedIsStartedAgainBeforeTheNextSend) {
  stop(sender_of(*client_)->pair());
  ASSERT_EQ(send(8, 'b'), RIPC_OK);
  EXPECT_EQ(counters().restarts, 1u);
  ASSERT_NO_FATAL_FAILURE(receive(2));
  EXPECT_TRUE(channel_->alive());
}

}  // namespace
}  // namespace ripc::internal::verbs
