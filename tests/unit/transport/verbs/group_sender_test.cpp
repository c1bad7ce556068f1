// SPDX-License-Identifier: Apache-2.0
// Messages to groups by the multicast of a real network. One datagram reaches all members, with the same effect as one
// datagram to each. Also what it costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "../spi_calls.hpp"
#include "nodes.hpp"
#include "transport/verbs/datagram/datagram_channel.hpp"
#include "transport/verbs/datagram/verbs_port.hpp"
#include "transport/verbs/groups/group_memberships.hpp"

namespace ripc::internal::verbs {
namespace {

constexpr ripc_service_id kGroup = (ripc_service_id{1} << 62) | 4711;

class GroupSends : public Nodes {
 protected:
  struct Member {
    std::unique_ptr<spi::Port> port;
    std::shared_ptr<spi::Channel> channel;
    Sink sink;
  };

  void SetUp() override {
    Nodes::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!has_datagrams()) GTEST_SKIP() << "this device has no datagrams";
    if (devices_->ports().front().ip.find(':') != std::string::npos) GTEST_SKIP() << "no address of IPv4";
    for (ripc_service_id id = 1; id <= 3; ++id) add_member(id);
  }
  void TearDown() override {
    members_.clear();
    Nodes::TearDown();
  }
  void add_member(ripc_service_id id) {
    Member& member = members_[id];
    Result<std::unique_ptr<spi::Port>> port = server_->transport().open_port(
        {.id = id, .queue_messages = 64, .queue_bytes = 8192, .max_senders = 16}, events_);
    ASSERT_TRUE(port.ok()) << port.status().text();
    member.port = std::move(*port);
    Result<std::shared_ptr<spi::Channel>> channel =
        test::connect(client_->transport(), server_->transport().address(), id, Deadline::after(kLimit));
    ASSERT_TRUE(channel.ok()) << channel.status().text();
    member.channel = std::move(*channel);
  }
  // Sends one datagram, and returns how many of the members it was sent to; the others get nothing.
  std::size_t send_together(std::string_view text) {
    std::vector<spi::Channel*> channels;
    for (const auto& [id, member] : members_) channels.push_back(member.channel.get());
    std::vector<std::uint8_t> sent(channels.size());
    const ripc_item item{text.data(), text.size(), RIPC_ITEM_SHORT, 0};
    const wire::Plain message{.source = 1, .tag = 0, .items = std::span(&item, 1), .bytes = text.size()};
    channels.front()->multicast()->send(kGroup, channels, message, sent);
    return static_cast<std::size_t>(std::count(sent.begin(), sent.end(), 1));
  }
  void poll() {
    for (auto& [id, member] : members_) (void)member.port->poll(member.sink, 64);
  }
  // Waits until one datagram reaches this many members.
  bool comes_to_reach(std::size_t count) {
    const Deadline deadline = Deadline::after(kLimit);
    while (!deadline.expired()) {
      poll();
      if (send_together("greeted?") == count) return true;
      std::this_thread::yield();
    }
    return false;
  }
  // Polls until this is the last message of each member.
  bool all_have(std::string_view text) {
    const Deadline deadline = Deadline::after(kLimit);
    const auto has = [&](const auto& entry) {
      return !entry.second.sink.packets.empty() && entry.second.sink.packets.back().ends_with(text);
    };
    while (!deadline.expired()) {
      poll();
      if (std::all_of(members_.begin(), members_.end(), has)) return true;
    }
    return false;
  }
  std::size_t count_of(ripc_service_id id, std::string_view text) {
    const auto& packets = members_[id].sink.packets;
    return static_cast<std::size_t>(std::count_if(packets.begin(), packets.end(),
                                                  [&](const std::string& packet) { return packet.ends_with(text); }));
  }

  std::map<ripc_service_id, Member> members_;
};

TEST_F(GroupSends, NothingIsSentTogetherBeforeAllHaveReceivedAGreeting) {
  EXPECT_EQ(send_together("too early"), 0u);
  EXPECT_TRUE(comes_to_reach(3));
  EXPECT_TRUE(all_have("greeted?"));
  for (const auto& [id, member] : members_) EXPECT_EQ(count_of(id, "too early"), 0u);
}

TEST_F(GroupSends, AMessageToAllIsOneWorkRequestAndOneDoorbellAndComesOnceToEach) {
  ASSERT_TRUE(comes_to_reach(3));
  ASSERT_TRUE(all_have("greeted?"));
  constexpr std::size_t kCount = 200;
  const DatagramCounters before = counters();
  for (std::size_t index = 0; index < kCount; ++index) {
    const std::string text = "message " + std::to_string(index);
    ASSERT_EQ(send_together(text), 3u) << index;
    ASSERT_TRUE(all_have(text)) << index;
  }
  const DatagramCounters after = counters();
  EXPECT_EQ(after.work_requests - before.work_requests, kCount);
  EXPECT_EQ(after.doorbells - before.doorbells, kCount);
  for (const auto& [id, member] : members_) {
    EXPECT_EQ(count_of(id, "message 7"), 1u);
    EXPECT_EQ(member.port->statistics().lost, 0u);
    EXPECT_EQ(member.port->statistics().corrupt, 0u);
  }
}

TEST_F(GroupSends, OneMemberWithoutRoomStopsItAndNoneIsLost) {
  ASSERT_TRUE(comes_to_reach(3));
  ASSERT_TRUE(all_have("greeted?"));
  // One member does not read.
  std::size_t sent = 0;
  while (sent < 10'000 && send_together("filling") == 3) {
    ++sent;
    for (const ripc_service_id id : {1u, 2u}) (void)members_[id].port->poll(members_[id].sink, 64);
  }
  EXPECT_GE(sent, 32u);
  ASSERT_LT(sent, 10'000u);
  const std::string text = "to one";
  const spi::Bytes bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(test::send(*members_[3].channel, bytes), RIPC_AGAIN) << "the room is that of the link";
  EXPECT_EQ(test::send(*members_[1].channel, bytes), RIPC_OK);
  const Deadline deadline = Deadline::after(kLimit);
  while (count_of(3, "filling") < sent && !deadline.expired()) poll();
  for (const auto& [id, member] : members_) {
    EXPECT_EQ(count_of(id, "filling"), sent) << id;
    EXPECT_EQ(member.port->statistics().lost, 0u);
  }
  EXPECT_TRUE(comes_to_reach(3)) << "the room comes back";
}

TEST_F(GroupSends, MessagesToOneAndToAllComeInTheirOrder) {
  ASSERT_TRUE(comes_to_reach(3));
  ASSERT_TRUE(all_have("greeted?"));
  for (auto& [id, member] : members_) member.sink.packets.clear();
  for (std::size_t index = 0; index < 20; ++index) {
    const std::string direct = "direct " + std::to_string(index);
    const spi::Bytes bytes = std::as_bytes(std::span(direct));
    ASSERT_EQ(send_together("together " + std::to_string(index)), 3u);
    ASSERT_EQ(test::send(*members_[2].channel, bytes), RIPC_OK);
  }
  const Deadline deadline = Deadline::after(kLimit);
  while (members_[2].sink.packets.size() < 40 && !deadline.expired()) poll();
  const auto& packets = members_[2].sink.packets;
  ASSERT_EQ(packets.size(), 40u);
  for (std::size_t index = 0; index < 20; ++index) {
    EXPECT_TRUE(packets[2 * index].ends_with("together " + std::to_string(index)));
    EXPECT_TRUE(packets[2 * index + 1].ends_with("direct " + std::to_string(index)));
  }
}

TEST_F(GroupSends, AMemberThatComesLaterIsReachedByTheNextRound) {
  ASSERT_TRUE(comes_to_reach(3));
  ASSERT_TRUE(all_have("greeted?"));
  ASSERT_NO_FATAL_FAILURE(add_member(4));
  EXPECT_EQ(send_together("without the new one"), 3u) << "the others go on as before";
  ASSERT_TRUE(comes_to_reach(4));
  ASSERT_TRUE(all_have("greeted?"));
  EXPECT_EQ(count_of(4, "without the new one"), 0u);
  EXPECT_EQ(count_of(1, "without the new one"), 1u);
}

TEST_F(GroupSends, AMemberThatLeavesHearsNoMore) {
  ASSERT_TRUE(comes_to_reach(3));
  ASSERT_TRUE(all_have("greeted?"));
  Member left = std::move(members_[2]);
  members_.erase(2);
  EXPECT_EQ(send_together("one by one"), 0u) << "the round reaches one who is not meant";
  ASSERT_TRUE(comes_to_reach(2));
  ASSERT_EQ(send_together("without it"), 2u);
  ASSERT_TRUE(all_have("without it"));
  left.sink.packets.clear();
  (void)left.port->poll(left.sink, 64);
  EXPECT_TRUE(left.sink.packets.empty());
}

TEST_F(GroupSends, AMemberThatDoesNotListenIsLeftOutOfTheNextRound) {
  const Deadline deadline = Deadline::after(kLimit);
  std::size_t reached = 0;
  while (reached != 2 && !deadline.expired()) {
    for (const ripc_service_id id : {1u, 3u}) (void)members_[id].port->poll(members_[id].sink, 64);
    reached = send_together("to those who listen");
    std::this_thread::yield();
  }
  EXPECT_EQ(reached, 2u);
  ASSERT_TRUE(members_.contains(2));
  (void)members_[2].port->poll(members_[2].sink, 64);
  EXPECT_EQ(count_of(2, "to those who listen"), 0u) << "it is sent a copy of its own";
}

TEST_F(GroupSends, EachMemberOfARoundLearnsOfItsEndThoughTheControlConnectionTakesNoMoreNow) {
  ASSERT_TRUE(comes_to_reach(3));
  auto* const port = dynamic_cast<VerbsPort*>(members_[1].port.get());
  const auto channel = std::dynamic_pointer_cast<DatagramChannel>(members_[1].channel);
  ASSERT_TRUE(port != nullptr && channel != nullptr);
  ASSERT_EQ(port->group_joins(), 1u);
  {
    const Node::Pause pause = server_->pause();
    while (channel->session()->stream.send(wire::session_control::Heartbeat{}) == RIPC_OK) continue;
    const auto senders = client_->transport().senders_of(devices_->ports().front().ip);
    ASSERT_TRUE(senders.ok()) << senders.status().text();
    senders->groups->left(channel->link());
  }
  const Deadline deadline = Deadline::after(kLimit);
  while (port->group_joins() != 0 && !deadline.expired()) poll();
  EXPECT_EQ(port->group_joins(), 0u);
  EXPECT_TRUE(channel->alive());
}

TEST_F(GroupSends, AServiceThatIsGoneAndOneThatComesDoNotDisturbTheOthers) {
  ASSERT_TRUE(comes_to_reach(3));
  members_.erase(1);
  ASSERT_TRUE(comes_to_reach(2));
  ASSERT_NO_FATAL_FAILURE(add_member(1));
  ASSERT_TRUE(comes_to_reach(3));
  ASSERT_TRUE(all_have("greeted?"));
}

TEST_F(GroupSends, AServicesQueuePairsInErrorAreStartedAgainAndWhatTheyMissedIsCounted) {
  ASSERT_TRUE(comes_to_reach(3));
  auto* const port = dynamic_cast<VerbsPort*>(members_[1].port.get());
  ASSERT_NE(port, nullptr);
  EXPECT_EQ(port->pairs().size(), 2u) << "its own and the one for groups";
  for (ibv_qp* pair : port->pairs()) fail(pair);
  const Deadline deadline = Deadline::after(kLimit);
  members_[1].sink.packets.clear();
  while (count_of(1, "again") == 0 && !deadline.expired()) {
    (void)send_together("again");
    (void)members_[1].channel->has_room(true);
    poll();
  }
  EXPECT_GE(count_of(1, "again"), 1u);
  EXPECT_GE(port->statistics().lost, 1u) << "the first of them";
}

TEST_F(GroupSends, AReturnedDeviceJoinsThoughTheMembershipOfTheRemovedOneIsStillHeld) {
  const std::unique_ptr<EventLoop> loop = EventLoop::create().value();
  const auto memberships = GroupMemberships::start(devices_->library(), *loop, [] {}).value();
  const auto joins = [&](const MembershipPointer& membership) {
    return loop->run_until([&] { return membership->joined() != nullptr; }, Deadline::after(kLimit));
  };
  const DevicePort removed = devices_->ports().front();
  const MembershipPointer held = memberships->join(removed, kGroup);
  ASSERT_TRUE(joins(held));
  memberships->forget(*removed.device);
  // It is opened anew, as when it has come back.
  const auto opened = DeviceList::open().value();
  const auto returned = opened->port_of(removed.ip);
  ASSERT_TRUE(returned);
  EXPECT_TRUE(joins(memberships->join(*returned, kGroup)));
  EXPECT_EQ(held->joined(), nullptr);
}

TEST(GroupAddresses, AreOfTheOrganizationAndTheSameForTheSameGroup) {
  for (ripc_service_id number = 0; number < 1000; ++number) {
    const remote::Endpoint address = multicast_address_of(kGroup + number);
    EXPECT_TRUE(address.same_ip(multicast_address_of(kGroup + number)));
    int second = 0;
    ASSERT_EQ(std::sscanf(address.ip().c_str(), "239.%d.", &second), 1) << address.ip();
    EXPECT_GE(second, 192);
    EXPECT_LE(second, 195);
  }
  EXPECT_EQ(multicast_address_of(kGroup).ip(), "239.195.59.132") << "docs/wire.md";
}

}  // namespace
}  // namespace ripc::internal::verbs
