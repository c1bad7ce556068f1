// SPDX-License-Identifier: Apache-2.0
// How each asynchronous event is handled, and who is notified. No device is needed for that.
#include "transport/verbs/device/async_events.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

namespace ripc::internal::verbs {
namespace {

ibv_async_event event_of(ibv_event_type type, int port = 0) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = port;
  return event;
}

TEST(AsyncEvents, EachAsksForSomethingOrForNothing) {
  const std::map<ibv_event_type, Reaction> expected{
      {IBV_EVENT_CQ_ERR, Reaction::lose_queue},
      {IBV_EVENT_QP_FATAL, Reaction::lose_pair},
      {IBV_EVENT_QP_REQ_ERR, Reaction::lose_pair},
      {IBV_EVENT_QP_ACCESS_ERR, Reaction::lose_pair},
      {IBV_EVENT_COMM_EST, Reaction::nothing},
      {IBV_EVENT_SQ_DRAINED, Reaction::nothing},
      {IBV_EVENT_PATH_MIG, Reaction::nothing},
      {IBV_EVENT_PATH_MIG_ERR, Reaction::nothing},
      {IBV_EVENT_DEVICE_FATAL, Reaction::lose_device},
      {IBV_EVENT_PORT_ACTIVE, Reaction::look_at_port},
      {IBV_EVENT_PORT_ERR, Reaction::lose_port},
      {IBV_EVENT_LID_CHANGE, Reaction::look_at_port},
      {IBV_EVENT_PKEY_CHANGE, Reaction::look_at_port},
      {IBV_EVENT_SM_CHANGE, Reaction::nothing},
      {IBV_EVENT_SRQ_ERR, Reaction::nothing},
      {IBV_EVENT_SRQ_LIMIT_REACHED, Reaction::nothing},
      {IBV_EVENT_QP_LAST_WQE_REACHED, Reaction::nothing},
      {IBV_EVENT_CLIENT_REREGISTER, Reaction::join_again},
      {IBV_EVENT_GID_CHANGE, Reaction::look_at_port},
      {IBV_EVENT_WQ_FATAL, Reaction::nothing},
  };
  for (int type = IBV_EVENT_CQ_ERR; type <= IBV_EVENT_WQ_FATAL; ++type) {
    const auto known = expected.find(static_cast<ibv_event_type>(type));
    ASSERT_NE(known, expected.end()) << type;
    EXPECT_EQ(reaction_to(known->first), known->second) << type;
  }
}

TEST(AsyncEvents, OfAnUnknownKindAreIgnored) {
  EXPECT_EQ(reaction_to(static_cast<ibv_event_type>(IBV_EVENT_WQ_FATAL + 1)), Reaction::nothing);
}

TEST(AsyncEvents, OfAPortOrTheDeviceAreReportedToAllListenersUntilTheyStop) {
  AsyncEvents events;
  using Heard = std::vector<std::pair<Reaction, int>>;
  Heard first, second;
  const auto id = events.listen([&](Reaction reaction, std::uint8_t port) { first.emplace_back(reaction, port); });
  events.listen([&](Reaction reaction, std::uint8_t port) { second.emplace_back(reaction, port); });
  events.tell(event_of(IBV_EVENT_PORT_ERR, 2));
  events.tell(event_of(IBV_EVENT_SM_CHANGE, 2));
  events.listen_no_more(id);
  events.tell(event_of(IBV_EVENT_CLIENT_REREGISTER, 1));
  events.tell(event_of(IBV_EVENT_DEVICE_FATAL));
  EXPECT_EQ(first, (Heard{{Reaction::lose_port, 2}}));
  EXPECT_EQ(second, (Heard{{Reaction::lose_port, 2}, {Reaction::join_again, 1}, {Reaction::lose_device, 0}}));
}

TEST(AsyncEvents, OfAQueueAreReportedToItsOwner) {
  AsyncEvents events;
  ibv_qp pair{}, other_pair{};
  ibv_cq queue{};
  int pairs_lost = 0, queues_lost = 0, others_lost = 0, devices_notified = 0;
  events.watch(&pair, [&] { ++pairs_lost; });
  events.watch(&other_pair, [&] { ++others_lost; });
  events.watch(&queue, [&] { ++queues_lost; });
  events.listen([&](Reaction reaction, std::uint8_t) {
    EXPECT_EQ(reaction, Reaction::lose_queue);
    EXPECT_EQ(queues_lost, 1) << "whoever has it was told before";
    ++devices_notified;
  });
  ibv_async_event event = event_of(IBV_EVENT_QP_ACCESS_ERR);
  event.element.qp = &pair;
  events.tell(event);
  event = event_of(IBV_EVENT_CQ_ERR);
  event.element.cq = &queue;
  events.tell(event);
  EXPECT_EQ(pairs_lost, 1);
  EXPECT_EQ(queues_lost, 1);
  EXPECT_EQ(others_lost, 0);
  EXPECT_EQ(devices_notified, 1);
  events.forget(&pair);
  event = event_of(IBV_EVENT_QP_FATAL);
  event.element.qp = &pair;
  events.tell(event);
  EXPECT_EQ(pairs_lost, 1);
}

}  // namespace
}  // namespace ripc::internal::verbs
