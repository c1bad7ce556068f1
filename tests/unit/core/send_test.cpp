// SPDX-License-Identifier: Apache-2.0
// The sending parts, if meanwhile a peer dies, is full, or has to be prepared for.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "core/send/sender.hpp"
#include "scripted_peers.hpp"

namespace ripc::internal::core {
namespace {

class SendParts : public ScriptedPeers {
 protected:
  void TearDown() override {
    sender_.end();
    tickets_.shut_down();
    ScriptedPeers::TearDown();
  }
  Status send(std::uint32_t kind, std::size_t size, ripc_service_id to = kPeer) {
    item_ = {bytes_.data(), size, kind, 0};
    arguments_.to = to;
    arguments_.items = {&item_, 1};
    return sender_.send(arguments_, nullptr);
  }
  ripc_service_statistics statistics() const {
    ripc_service_statistics statistics{};
    sender_.counters().add_to(statistics);
    return statistics;
  }

  ServiceLife life_{EventSet::create().value()};
  RequestTable requests_;
  TicketKeeper tickets_{*loop_};
  GroupTable groups_{resolver_, 3'600'000'000'000, 0};
  Sender sender_{3,
                 {.life = life_,
                  .paths = paths_,
                  .pool = *parts_.pool,
                  .tickets = tickets_,
                  .requests = requests_,
                  .groups = groups_,
                  .resolver = resolver_,
                  .resolve_timeout = parts_.resolve_timeout}};
  std::vector<std::byte> bytes_ = std::vector<std::byte>(2 * ScriptedChannel::kLimit);
  ripc_item item_{};
  SendArguments arguments_;
};

// ---- Short messages ----------------------------------------------------------------------------------------------

using ShortSends = SendParts;

TEST_F(ShortSends, GoToTheSuccessorOfAPeerThatHasGoneAndGiveUpAfterAFew) {
  lead_and_connect(kPeer)->answers = {RIPC_PEER_DEAD};
  lead(kPeer)->answers = {RIPC_CLOSED};
  const auto last = lead(kPeer);
  EXPECT_TRUE(send(RIPC_ITEM_SHORT, 10).ok());
  EXPECT_EQ(last->sends, 1);
  last->answers = {RIPC_PEER_DEAD};
  for (int successor = 0; successor < 2 * kAttempts; ++successor) lead(kPeer)->answers = {RIPC_PEER_DEAD};
  EXPECT_EQ(send(RIPC_ITEM_SHORT, 10).code(), RIPC_PEER_DEAD);
  EXPECT_FALSE(transport_.ways[kPeer].empty());
  EXPECT_EQ(statistics().messages_sent, 1u);
}

TEST_F(ShortSends, PrepareThePathForWhatIsLargerAndSendItThen) {
  const auto channel = lead_and_connect(kPeer);
  channel->answers = {RIPC_TOO_LARGE};
  EXPECT_TRUE(send(RIPC_ITEM_SHORT, 1000).ok());
  EXPECT_EQ(channel->sends, 2);
  EXPECT_EQ(channel->widened, wire::packet_size(1, 1000));
  channel->answers.assign(2 * kAttempts, RIPC_TOO_LARGE);
  channel->widening = RIPC_TOO_LARGE;
  EXPECT_EQ(send(RIPC_ITEM_SHORT, 1000).code(), RIPC_TOO_LARGE) << "it cannot be";
}

TEST_F(ShortSends, ThatNeverWaitOnlyBeginToPrepareThePath) {
  arguments_.never_waits = true;
  EXPECT_EQ(send(RIPC_ITEM_SHORT, 1000).code(), RIPC_PENDING) << "there is no path";
  EXPECT_TRUE(transport_.asked.empty());
  const auto channel = lead_and_connect(kPeer);
  channel->answers = {RIPC_TOO_LARGE, RIPC_TOO_LARGE};
  EXPECT_EQ(send(RIPC_ITEM_SHORT, 1000).code(), RIPC_PENDING);
  EXPECT_EQ(channel->begun_to_widen, wire::packet_size(1, 1000));
  channel->beginning = RIPC_OK;
  EXPECT_EQ(send(RIPC_ITEM_SHORT, 1000).code(), RIPC_OK);
  EXPECT_EQ(channel->widened, 0u);
  channel->answers = {RIPC_PEER_DEAD};
  EXPECT_EQ(send(RIPC_ITEM_SHORT, 1000).code(), RIPC_PENDING) << "the path is gone";
}

TEST_F(ShortSends, GoByThePathThatTheLastAttemptHasPrepared) {
  lead_and_connect(kPeer)->answers = {RIPC_PEER_DEAD};
  lead(kPeer)->answers = {RIPC_PEER_DEAD};
  const auto last = lead(kPeer);
  last->answers = {RIPC_TOO_LARGE};
  EXPECT_EQ(send(RIPC_ITEM_SHORT, 1000).code(), RIPC_OK);
  EXPECT_EQ(last->sends, 2);
}

TEST_F(ShortSends, HaveALimitOfNothingIfThePeerTakesLessThanAnEmptyMessage) {
  ASSERT_NE(lead(kPeer, std::uint64_t{1}, nullptr, std::size_t{16}), nullptr);
  EXPECT_EQ(sender_.short_limit(kPeer, 1).value(), 0u);
  resolver_.in_group[kPeer] = 1;
  EXPECT_EQ(sender_.short_limit(RIPC_GROUP_ID(7), 1).value(), 0u);
}

TEST_F(ShortSends, LeaveToTheGeneralSendWhatTheFastPathCannotSettle) {
  const auto fast = [&](std::uint32_t kind) {
    const ripc_item item{bytes_.data(), 10, kind, 0};
    return sender_.send_short(kPeer, 0, {&item, 1});
  };
  const auto channel = lead(kPeer);
  EXPECT_EQ(fast(RIPC_ITEM_SHORT), RIPC_PENDING) << "the way is not known";
  ASSERT_TRUE(paths_.channel_to(kPeer, resolutions_).ok());
  EXPECT_EQ(fast(RIPC_ITEM_LONG), RIPC_PENDING);
  channel->answers = {RIPC_AGAIN, RIPC_PEER_DEAD, RIPC_TOO_LARGE};
  EXPECT_EQ(fast(RIPC_ITEM_SHORT), RIPC_AGAIN);
  EXPECT_EQ(fast(RIPC_ITEM_SHORT), RIPC_PENDING);
  EXPECT_EQ(fast(RIPC_ITEM_SHORT), RIPC_PENDING);
  EXPECT_EQ(fast(RIPC_ITEM_SHORT), RIPC_OK);
  (void)life_.fence();
  EXPECT_EQ(fast(RIPC_ITEM_SHORT), RIPC_PENDING);
}

TEST_F(ShortSends, ANotificationGoesToTheSuccessor) {
  lead_and_connect(kPeer)->answers = {RIPC_PEER_DEAD};
  const auto successor = lead(kPeer);
  EXPECT_TRUE(sender_.notify(kPeer, 5, {}).ok());
  EXPECT_EQ(successor->sends, 1);
  EXPECT_EQ(statistics().notifications_sent, 1u);
}

// ---- Long messages -----------------------------------------------------------------------------------------------

class LongSends : public SendParts {
 protected:
  // Sends a request with a long item, a return buffer and a callback for its end.
  Status ask() {
    arguments_.returns = {&buffer_, 1};
    arguments_.callback = [](void*, ripc_status) {};
    arguments_.request_id = &request_;
    return send(RIPC_ITEM_LONG, 100);
  }
  static bool nothing_is_open(const ScriptedChannel& channel) { return !channel.is_open(1) && channel.grants == 0; }

  std::array<std::byte, 10> reply_{};
  const ripc_return_buffer buffer_{reply_.data(), reply_.size()};
  std::uint64_t request_ = 0;
};

TEST_F(LongSends, ThatFailTakeBackAllThatTheyLetThePeerDo) {
  const auto channel = lead_and_connect(kPeer);
  channel->answers = {RIPC_AGAIN};
  EXPECT_EQ(ask().code(), RIPC_AGAIN);
  EXPECT_TRUE(nothing_is_open(*channel));
  EXPECT_EQ(requests_.next(0), 0u);
  EXPECT_EQ(request_, 0u);
}

TEST_F(LongSends, GoToTheSuccessorAndLeaveNothingOpenAtThePeerThatHasGone) {
  const auto former = lead_and_connect(kPeer);
  former->answers = {RIPC_PEER_DEAD};
  const auto successor = lead(kPeer);
  ASSERT_TRUE(ask().ok());
  EXPECT_TRUE(nothing_is_open(*former));
  EXPECT_TRUE(successor->is_open(1));
  EXPECT_EQ(successor->grants, 1);
  EXPECT_EQ(requests_.next(0), request_);
  EXPECT_EQ(requests_.next(request_), 0u) << "one request, though there were two attempts";
}

TEST_F(LongSends, AreMadeToFitASuccessorThatTakesLess) {
  lead_and_connect(kPeer)->answers = {RIPC_PEER_DEAD};
  const auto successor = lead(kPeer, std::uint64_t{1}, nullptr, std::size_t{512});
  arguments_.unordered = true;
  const Status status = send(RIPC_ITEM_AUTO, 2000);
  EXPECT_TRUE(status.ok()) << status.text();
  EXPECT_TRUE(successor->is_open(1));
  EXPECT_FALSE(successor->is_open(2)) << "one transfer";
}

TEST_F(LongSends, WriteAReturnBufferOnceIfThePeerIsFoundAgain) {
  lead_and_connect(kPeer)->answers = {RIPC_PEER_DEAD};
  const auto successor = lead(kPeer);
  const auto source = std::make_shared<FakeSource>(1);
  source->pushing = RIPC_OK;
  Message request;
  request.request = 5;
  request.attachments = std::make_unique<Message::Attachments>();
  request.attachments->source = source;
  request.attachments->grants = {{.key = 1, .location = 0, .length = bytes_.size()}};
  arguments_.reply_to = &request;
  EXPECT_TRUE(send(RIPC_ITEM_RETURN, bytes_.size()).ok());
  EXPECT_EQ(source->pushes, 1);
  EXPECT_EQ(successor->sends, 1);
}

TEST_F(LongSends, GoToTheSuccessorOfAPeerThatDiesWhileThePathIsPrepared) {
  const auto former = lead_and_connect(kPeer);
  former->make_narrow(512);
  former->widening = RIPC_CLOSED;
  const auto successor = lead(kPeer);
  arguments_.unordered = true;
  const Status status = send(RIPC_ITEM_AUTO, 2000);
  EXPECT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(former->sends, 0);
  EXPECT_EQ(successor->sends, 1);
  EXPECT_FALSE(successor->is_open(1)) << "the item fits into the packet";
}

TEST_F(LongSends, ThatNeverWaitOnlyBeginToPrepareThePath) {
  arguments_.never_waits = arguments_.unordered = true;
  EXPECT_EQ(send(RIPC_ITEM_AUTO, 2000).code(), RIPC_PENDING) << "there is no path";
  EXPECT_TRUE(transport_.asked.empty());
  const auto channel = lead_and_connect(kPeer);
  channel->make_narrow(512);
  EXPECT_EQ(send(RIPC_ITEM_AUTO, 2000).code(), RIPC_PENDING);
  EXPECT_GT(channel->begun_to_widen, 2000u);
  channel->make_narrow(ScriptedChannel::kLimit);
  EXPECT_EQ(send(RIPC_ITEM_AUTO, 2000).code(), RIPC_OK);
  EXPECT_EQ(channel->widened, 0u);
  EXPECT_EQ(channel->sends, 1);
  channel->answers = {RIPC_PEER_DEAD};
  EXPECT_EQ(send(RIPC_ITEM_AUTO, 2000).code(), RIPC_PENDING) << "the path is gone";
}

TEST_F(LongSends, WhoseCopiesFoundNoRoomMakeNoOthersBeforeThereIsSome) {
  const auto channel = lead_and_connect(kPeer);
  channel->answers = {RIPC_AGAIN};
  channel->room = false;
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_EQ(send(RIPC_ITEM_AUTO, bytes_.size()).code(), RIPC_AGAIN);
    EXPECT_EQ(statistics().payload_copies, 1u);
  }
  channel->room = true;
  EXPECT_TRUE(send(RIPC_ITEM_AUTO, bytes_.size()).ok());
  EXPECT_EQ(statistics().payload_copies, 2u);
}

TEST_F(LongSends, ThatAnnouncedMoreGoWhenNoMoreComes) {
  const auto channel = lead_and_connect(kPeer);
  channel->answers = {RIPC_OK, RIPC_AGAIN};
  arguments_.to = kPeer;
  arguments_.callback = [](void*, ripc_status) {};
  const ripc_item item{bytes_.data(), 100, RIPC_ITEM_LONG, 0};
  ripc_outgoing message{};
  message.items = &item;
  message.count = 1;
  const std::array<ripc_outgoing, 3> messages{message, message, message};
  std::size_t sent = 0;
  EXPECT_EQ(sender_.send_many(arguments_, messages, {}, sent).code(), RIPC_AGAIN);
  EXPECT_EQ(sent, 1u);
  EXPECT_EQ(channel->flushes, 1);
}

// ---- To groups ---------------------------------------------------------------------------------------------------

// Sends to all channels but the unreachable one.
class FakeMulticast final : public spi::Multicast {
 public:
  void send(ripc_service_id, std::span<spi::Channel* const> channels, const wire::Plain&,
            std::span<std::uint8_t> sent) noexcept override {
    ++packets;
    for (std::size_t index = 0; index < sent.size(); ++index) sent[index] = channels[index] != unreachable ? 1 : 0;
  }
  const spi::Channel* unreachable = nullptr;
  int packets = 0;
};

class SendsToGroups : public SendParts {
 protected:
  static constexpr ripc_service_id kGroup = RIPC_GROUP_ID(7);
  Status send_to_group(std::size_t size = 10) {
    outcome_ = {};
    arguments_.outcome = &outcome_;
    return send(RIPC_ITEM_SHORT, size, kGroup);
  }
  ripc_group_outcome outcome_{};
};

TEST_F(SendsToGroups, ReachTheMembersOfOneNetworkByOnePacketAndTheRestOneByOne) {
  FakeMulticast network;
  std::vector<std::shared_ptr<ScriptedChannel>> channels;
  for (ripc_service_id id = 11; id < 15; ++id) {
    resolver_.in_group[id] = 1;
    channels.push_back(lead(id, 1, id == 14 ? nullptr : &network));
    ASSERT_TRUE(paths_.channel_to(id, resolutions_).ok());
  }
  network.unreachable = channels[1].get();
  EXPECT_TRUE(send_to_group().ok());
  EXPECT_EQ(outcome_.taken, 4u);
  EXPECT_EQ(network.packets, 1);
  EXPECT_EQ(statistics().group_packets, 1u);
  for (std::size_t index = 0; index < channels.size(); ++index)
    EXPECT_EQ(channels[index]->sends, index == 1 || index == 3 ? 1 : 0) << index;
}

TEST_F(SendsToGroups, ThatNoOneTookSayThatThereWasNoRoomRatherThanAnythingElse) {
  const std::array<ripc_status, 3> answers{RIPC_TOO_LARGE, RIPC_AGAIN, RIPC_NO_MEMORY};
  for (std::size_t index = 0; index < answers.size(); ++index) {
    resolver_.in_group[11 + index] = 1;
    lead_and_connect(11 + index)->answers.assign(2, answers[index]);
  }
  EXPECT_EQ(send_to_group().code(), RIPC_AGAIN);
  EXPECT_EQ(outcome_.members, 3u);
  EXPECT_EQ(outcome_.taken, 0u);
}

TEST_F(SendsToGroups, MissAMemberWhosePathIsNarrowHoweverOftenItIsWidened) {
  resolver_.in_group[11] = 1;
  const auto narrow = lead_and_connect(11);
  narrow->make_narrow(100);
  resolver_.in_group[12] = 1;
  const auto other = lead_and_connect(12);
  EXPECT_TRUE(send_to_group(1000).ok());
  EXPECT_EQ(outcome_.taken, 1u);
  EXPECT_EQ(narrow->sends, 0);
  EXPECT_EQ(narrow->widened, wire::packet_size(1, 1000));
  EXPECT_EQ(other->sends, 1);
}

TEST_F(SendsToGroups, TakeNoWayToAFormerRegistrationOfAMember) {
  const auto former = lead_and_connect(11);
  resolver_.in_group[11] = 2;
  const auto now = lead(11, std::uint64_t{2});
  EXPECT_TRUE(send_to_group().ok());
  EXPECT_EQ(former->sends, 0);
  EXPECT_EQ(now->sends, 1);
}

TEST_F(SendsToGroups, GoToThoseThatCameInThePlaceOfMembersThatAreAllGone) {
  resolver_.in_group[11] = 1;
  lead_and_connect(11)->answers = {RIPC_PEER_DEAD};
  const auto newcomer = lead(12);
  resolver_.on_invalidate = [&](ripc_service_id id) {
    resolver_.in_group.erase(id);
    resolver_.in_group[12] = 1;
  };
  EXPECT_TRUE(send_to_group().ok());
  EXPECT_EQ(newcomer->sends, 1);
  EXPECT_EQ(outcome_.members, 1u);
}

}  // namespace
}  // namespace ripc::internal::core
