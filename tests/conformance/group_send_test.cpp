// SPDX-License-Identifier: Apache-2.0
// Messages to groups: each member receives them once.
#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <thread>

#include "allocation_counter.hpp"
#include "groups.hpp"
#include "puppet.hpp"

namespace conformance {
namespace {

class GroupSend : public GroupTest {};
CONFORMANCE_SUITE(GroupSend);

// ---- Sending -----------------------------------------------------------------------------------------------------

TEST_P(GroupSend, EachMemberReceivesAMessageOnceAndNoOneElse) {
  const Context third = make_context();
  std::vector<Service> members;
  for (int count = 0; count < 3; ++count) {
    members.push_back(make_service(server_context_));
    members.push_back(make_service(third));
    members.push_back(make_service(client_context_));
  }
  for (const Service& member : members) ASSERT_EQ(ripc_group_join(member.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(9));
  const Outcome outcome = send_to_group("to all");
  EXPECT_EQ(outcome.status, RIPC_OK) << ripc_last_error();
  EXPECT_EQ(outcome.members, 9u);
  EXPECT_EQ(outcome.taken, 9u);
  for (const Service& member : members) {
    const Message message = receive(member);
    EXPECT_EQ(text_of(message), "to all");
    EXPECT_EQ(ripc_message_get_source(message.get()), client_id());
    expect_nothing_more(member);
  }
  expect_nothing_more(server_);
}

TEST_P(GroupSend, TheSenderReceivesItsOwnMessageIfItIsAMember) {
  ASSERT_EQ(ripc_group_join(client_.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(1)) << "a join counts at once in its own context";
  ASSERT_EQ(send_text(client_, group_, "to us", 5), RIPC_OK) << ripc_last_error();
  const Message message = receive(client_);
  EXPECT_EQ(text_of(message), "to us");
  EXPECT_EQ(ripc_message_get_tag(message.get()), 5u);
  EXPECT_EQ(ripc_message_get_source(message.get()), client_id());
}

TEST_P(GroupSend, EachMemberReceivesSeveralMessagesOfOneCallInOrder) {
  Service other = make_service(server_context_);
  for (Service* member : {&server_, &other}) ASSERT_EQ(ripc_group_join(member->get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(2));
  const std::string text = "one of several";
  const ripc_item one = item(text, RIPC_ITEM_SHORT);
  const std::array<ripc_outgoing, 3> messages = {ripc_outgoing{&one, 1, 0}, {&one, 1, 1}, {nullptr, 0, 2}};
  std::size_t sent = 0;
  ASSERT_EQ(ripc_send_many(client_.get(), group_, messages.data(), messages.size(), nullptr, nullptr, &sent), RIPC_OK)
      << ripc_last_error();
  EXPECT_EQ(sent, messages.size());
  for (Service* member : {&server_, &other}) {
    for (const ripc_outgoing& message : messages) {
      const Message received = receive(*member);
      EXPECT_EQ(ripc_message_get_tag(received.get()), message.tag);
      EXPECT_EQ(ripc_message_get_item_count(received.get()), message.count);
    }
    expect_nothing_more(*member);
  }
}

TEST_P(GroupSend, AJoinCountsAtOnceInItsOwnContext) {
  const Service neighbour = make_service(client_context_);
  EXPECT_EQ(send_text(client_, group_, "too early"), RIPC_NO_SERVICE);
  ASSERT_EQ(ripc_group_join(neighbour.get(), group_), RIPC_OK);
  EXPECT_EQ(send_text(client_, group_, "first"), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(text_of(receive(neighbour)), "first");
  ASSERT_EQ(ripc_group_leave(neighbour.get(), group_), RIPC_OK);
  EXPECT_EQ(send_text(client_, group_, "too late"), RIPC_NO_SERVICE);
}

TEST_P(GroupSend, WithoutMembersTheErrorSaysWhatToDo) {
  const Outcome outcome = send_to_group("to nobody");
  EXPECT_EQ(outcome.status, RIPC_NO_SERVICE);
  EXPECT_NE(std::string(ripc_last_error()).find("ripc_group_join"), std::string::npos) << ripc_last_error();
  EXPECT_EQ(outcome.members, 0u);
  EXPECT_EQ(outcome.taken, 0u);
  std::size_t bytes = 0;
  EXPECT_EQ(ripc_short_limit(client_.get(), group_, 1, &bytes), RIPC_NO_SERVICE);
  EXPECT_EQ(ripc_wait_room(client_.get(), group_, 0), RIPC_NO_SERVICE);
  EXPECT_EQ(ripc_request_room_event(client_.get(), group_), RIPC_NO_SERVICE);
}

TEST_P(GroupSend, MessagesOfOneSenderArriveInOrder) {
  ASSERT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(1));
  for (std::uint32_t index = 1; index <= 50; ++index) ASSERT_EQ(send_text(client_, group_, "real", index), RIPC_OK);
  for (std::uint32_t index = 1; index <= 50; ++index) EXPECT_EQ(ripc_message_get_tag(receive(server_).get()), index);
}

TEST_P(GroupSend, AStreamOfMessagesToAllAndToOneComesOnceAndInOrder) {
  const Context third = make_context();
  const Service second = make_service(server_context_);
  const Service other = make_service(third);
  const std::array<const Service*, 3> members = {&server_, &second, &other};
  for (const Service* member : members) ASSERT_EQ(ripc_group_join(member->get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(3));
  // This is long enough to find out whether one packet on the network reaches all members.
  const std::uint64_t end = now() + 1000 * kMillisecond;
  std::uint32_t sent = 0;
  while (sent < 500 || (sent < 20'000 && now() < end)) {
    ASSERT_EQ(send_to_group("stream " + std::to_string(++sent)).taken, 3u) << ripc_last_error();
    const std::string direct = "direct " + std::to_string(sent);
    ASSERT_EQ(send_text(client_, id_of(second), direct), RIPC_OK);
    for (const Service* member : members) ASSERT_EQ(text_of(receive(*member)), "stream " + std::to_string(sent));
    ASSERT_EQ(text_of(receive(second)), direct);
  }
  for (const Service* member : members) expect_nothing_more(*member);
}

TEST_P(GroupSend, AMemberCanBeAnswered) {
  ASSERT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(1));
  ASSERT_EQ(send_text(client_, group_, "who is there"), RIPC_OK);
  const Message question = receive(server_);
  const std::string_view answer = "me";
  const ripc_item one = item(answer);
  ASSERT_EQ(ripc_reply(server_.get(), question.get(), &one, 1, nullptr, nullptr), RIPC_OK);
  const Message reply = receive(client_);
  EXPECT_EQ(text_of(reply), "me");
  EXPECT_EQ(ripc_message_get_source(reply.get()), server_id()) << "the member, not the group";
}

TEST_P(GroupSend, LongItemsAndReturnBuffersAreUnsupported) {
  ASSERT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(1));
  EXPECT_EQ(send_to_group("long", RIPC_ITEM_LONG).status, RIPC_UNSUPPORTED);
  EXPECT_NE(std::string(ripc_last_error()).find("ripc_group_members"), std::string::npos) << ripc_last_error();
  Bytes memory(16);
  const ripc_return_buffer buffer{memory.data(), memory.size()};
  ripc_send_options options = send_options();
  options.return_count = 1;
  options.returns = &buffer;
  EXPECT_EQ(ripc_send(client_.get(), group_, nullptr, 0, &options, nullptr), RIPC_UNSUPPORTED);
  expect_nothing_more(server_);
}

TEST_P(GroupSend, TheShortLimitIsWhatAllMembersTake) {
  const Service small =
      make_service(server_context_, [](ripc_service_options& options) { options.queue_bytes = 4096; });
  ASSERT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  ASSERT_EQ(ripc_group_join(small.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(2));
  std::size_t limit_of_group = 0;
  std::size_t limit_of_small = 0;
  std::size_t limit_of_server = 0;
  ASSERT_EQ(ripc_short_limit(client_.get(), group_, 1, &limit_of_group), RIPC_OK) << ripc_last_error();
  ASSERT_EQ(ripc_short_limit(client_.get(), id_of(small), 1, &limit_of_small), RIPC_OK);
  ASSERT_EQ(ripc_short_limit(client_.get(), server_id(), 1, &limit_of_server), RIPC_OK);
  EXPECT_EQ(limit_of_group, std::min(limit_of_small, limit_of_server));

  const std::string fits(limit_of_group, 'x');
  EXPECT_EQ(send_to_group(fits).taken, 2u);
  const std::string too_large(limit_of_server + 1, 'x');
  const Outcome outcome = send_to_group(too_large);
  EXPECT_EQ(outcome.status, RIPC_TOO_LARGE);
  EXPECT_EQ(outcome.taken, 0u);
  if (limit_of_small < limit_of_server) {
    const Outcome part = send_to_group(std::string(limit_of_server, 'x'));
    EXPECT_EQ(part.status, RIPC_OK);
    EXPECT_EQ(part.missed, std::vector{id_of(small)}) << "a member that takes less does not hold up the others";
  }
}

// ---- Room --------------------------------------------------------------------------------------------------------

TEST_P(GroupSend, AFullMemberMissesTheMessageAndTheOthersHaveIt) {
  const Service full = make_service(server_context_, [](ripc_service_options& options) {
    options.queue_messages = 16;
    options.queue_bytes = 4096;
  });
  ASSERT_EQ(ripc_group_join(full.get(), group_), RIPC_OK);
  ASSERT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(2));
  send_until_full([&] { return send_text(client_, id_of(full), "filling"); });
  const std::uint64_t again = statistics_of(client_).again;
  const Outcome outcome = send_to_group("to whom it may concern");
  EXPECT_EQ(outcome.status, RIPC_OK);
  EXPECT_EQ(outcome.members, 2u);
  EXPECT_EQ(outcome.taken, 1u);
  EXPECT_EQ(outcome.missed, std::vector{id_of(full)});
  EXPECT_EQ(statistics_of(client_).again, again + 1);
  EXPECT_EQ(text_of(receive(server_)), "to whom it may concern");

  // The application sends the message again to the member that missed it.
  std::thread reader([&] {
    for (std::string text; text != "to whom it may concern";) text = text_of(receive(full));
  });
  ASSERT_EQ(ripc_wait_room(client_.get(), outcome.missed[0], kLimit), RIPC_OK);
  EXPECT_EQ(send_text(client_, outcome.missed[0], "to whom it may concern"), RIPC_OK);
  reader.join();
}

TEST_P(GroupSend, TheOutcomeNamesAsManyAsThereIsPlaceForAndOfOneServiceNone) {
  const Service second = make_service(server_context_);
  ASSERT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  ASSERT_EQ(ripc_group_join(second.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(2));
  const std::string too_large(2 << 20, 'x');
  const ripc_item one = item(too_large, RIPC_ITEM_SHORT);
  std::array<ripc_service_id, 2> missed{55, 66};
  ripc_group_outcome outcome{sizeof outcome, 77, 77, missed.data(), 1};
  ripc_send_options options = send_options();
  options.outcome = &outcome;
  EXPECT_EQ(ripc_send(client_.get(), group_, &one, 1, &options, nullptr), RIPC_TOO_LARGE);
  EXPECT_EQ(outcome.members, 2u);
  EXPECT_EQ(outcome.taken, 0u);
  EXPECT_TRUE(missed[0] == server_id() || missed[0] == id_of(second)) << missed[0];
  EXPECT_EQ(missed[1], 66u) << "beyond the place for one";
  EXPECT_EQ(outcome.missed_capacity, 1u);

  outcome = {sizeof outcome, 77, 77, nullptr, 2};
  EXPECT_EQ(ripc_send(client_.get(), group_, &one, 1, &options, nullptr), RIPC_TOO_LARGE) << "no place at all";
  EXPECT_EQ(outcome.members, 2u);
  EXPECT_EQ(ripc_send(client_.get(), server_id(), nullptr, 0, &options, nullptr), RIPC_OK);
  EXPECT_EQ(outcome.members, 0u) << "not a group";
  EXPECT_EQ(outcome.taken, 0u);
}

TEST_P(GroupSend, IfNoMemberHasRoomNothingIsSentAndRoomCanBeWaitedFor) {
  const auto small = [](ripc_service_options& options) {
    options.queue_messages = 16;
    options.queue_bytes = 4096;
  };
  const Service one = make_service(server_context_, small);
  const Service two = make_service(server_context_, small);
  ASSERT_EQ(ripc_group_join(one.get(), group_), RIPC_OK);
  ASSERT_EQ(ripc_group_join(two.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(2));
  for (const Service* member : {&one, &two}) {
    send_until_full([&] { return send_text(client_, id_of(*member), "filling"); });
  }
  const Outcome outcome = send_to_group("no room");
  EXPECT_EQ(outcome.status, RIPC_AGAIN);
  EXPECT_EQ(outcome.taken, 0u);
  EXPECT_EQ(outcome.missed.size(), 2u);
  EXPECT_EQ(ripc_wait_room(client_.get(), group_, kMillisecond), RIPC_TIMEOUT);
  std::atomic<bool> enough{false};
  std::thread reader([&] {
    while (!enough.load()) {
      ripc_message* message = nullptr;
      if (ripc_receive(two.get(), 0, kMillisecond, &message) == RIPC_OK) ripc_message_release(message);
    }
  });
  EXPECT_EQ(ripc_wait_room(client_.get(), group_, kLimit), RIPC_OK) << "there is room at one member";
  EXPECT_TRUE(eventually([&] { return send_text(client_, group_, "now") == RIPC_OK; }));
  enough.store(true);
  reader.join();
}

// ---- Other processes, other threads ------------------------------------------------------------------------------

TEST_P(GroupSend, AKilledMemberLeavesTheGroupAndTheOthersGoOnReceivingOnce) {
  ASSERT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(5151), "RIPC_OK");
  ASSERT_EQ(puppet.call("join " + std::to_string(group_)), "RIPC_OK");
  ASSERT_TRUE(sees_members(2));
  ASSERT_EQ(send_to_group("to both").taken, 2u);
  EXPECT_EQ(text_of(receive(server_)), "to both");
  puppet.kill();
  for (int index = 0; index < 20; ++index)
    ASSERT_EQ(send_to_group("after " + std::to_string(index)).status, RIPC_OK) << ripc_last_error();
  for (int index = 0; index < 20; ++index)
    ASSERT_EQ(text_of(receive(server_)), "after " + std::to_string(index)) << "each once, in order";
  EXPECT_TRUE(sees_members(1)) << "the dead one is not a member any more";
  EXPECT_TRUE(eventually([&] { return members_of(client_context_, group_) == std::set{server_id()}; }));
  expect_nothing_more(server_);
}

TEST_P(GroupSend, ManyThreadsSendWhileOthersJoinAndLeave) {
  ASSERT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(1));
  constexpr std::uint32_t kMessages = 300;
  std::atomic<bool> stop{false};
  std::thread restless([&] {
    const Service guest = make_service(server_context_);
    while (!stop.load()) {
      EXPECT_EQ(ripc_group_join(guest.get(), group_), RIPC_OK) << ripc_last_error();
      ripc_message* message = nullptr;
      if (ripc_receive(guest.get(), 0, kMillisecond, &message) == RIPC_OK) ripc_message_release(message);
      EXPECT_EQ(ripc_group_leave(guest.get(), group_), RIPC_OK) << ripc_last_error();
    }
  });
  std::vector<std::thread> senders;
  for (std::uint32_t sender = 0; sender < 3; ++sender) {
    senders.emplace_back([&, sender] {
      for (std::uint32_t index = 0; index < kMessages;) {
        std::array<ripc_service_id, 4> missed{};
        ripc_group_outcome outcome{sizeof outcome, 0, 0, missed.data(), missed.size()};
        ripc_send_options options = send_options();
        options.tag = sender << 16 | index;
        options.outcome = &outcome;
        const ripc_status status = ripc_send(client_.get(), group_, nullptr, 0, &options, nullptr);
        EXPECT_TRUE(status == RIPC_OK || status == RIPC_AGAIN) << ripc_last_error();
        const auto end = missed.begin() + std::min<std::uint32_t>(outcome.members - outcome.taken, 4);
        // Messages that the server missed are sent again, so in the end it must have each exactly once.
        if (status == RIPC_OK && std::find(missed.begin(), end, server_id()) == end) ++index;
      }
    });
  }
  std::set<std::uint32_t> seen;
  while (seen.size() < 3 * kMessages) {
    const Message message = receive(server_);
    ASSERT_NE(message, nullptr);
    EXPECT_TRUE(seen.insert(ripc_message_get_tag(message.get())).second) << "received twice";
  }
  for (std::thread& sender : senders) sender.join();
  stop.store(true);
  restless.join();
  expect_nothing_more(server_);
}

TEST_P(GroupSend, ASendToAGroupAllocatesNothing) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer has its own malloc";
  ASSERT_EQ(ripc_group_join(server_.get(), group_), RIPC_OK);
  ASSERT_TRUE(sees_members(1));
  const std::string_view text = "real";
  const ripc_item one = item(text);
  // The sender asks for the list of members again now and then. A new link keeps what it sends until its datagrams are
  // known to arrive. Both allocate; soon no send does.
  EXPECT_TRUE(eventually([&] {
    const std::uint64_t before = allocation_count();
    const ripc_status status = ripc_send(client_.get(), group_, &one, 1, nullptr, nullptr);
    const std::uint64_t allocated = allocation_count() - before;
    EXPECT_EQ(status, RIPC_OK) << ripc_last_error();
    EXPECT_EQ(text_of(receive(server_)), "real");
    return allocated == 0;
  }));
}

}  // namespace
}  // namespace conformance
