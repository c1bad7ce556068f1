// SPDX-License-Identifier: Apache-2.0
// Tests kill -9 of group members. The members use different paths (shared memory, sockets, both) and receive numbered
// messages; some are killed at random moments. Each survivor must receive each message exactly once and in order, and
// the dead must leave the list of members. RIPC_FAULT_ROUNDS and RIPC_FAULT_SEED work as in kill_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "fault_support.hpp"

namespace fault {
namespace {

constexpr ripc_service_id kSender = 2001;
constexpr ripc_service_id kFirstMember = 2100;
constexpr ripc_service_id kGroup = RIPC_GROUP_ID(2000);
constexpr std::uint32_t kEnd = UINT32_MAX;  // the tag of the last message
constexpr std::array kPaths = {"shm", "socket", "shm,socket"};

// Arguments DIRECTORY ID TRANSPORTS. Receives the messages 1, 2, 3 ... to the end; exits with 0 if each came once.
int member(const std::vector<std::string>& arguments) {
  const Context context = make_context(arguments.at(0), 0, arguments.at(2).c_str());
  if (!context) return 1;
  const Service service = make_service(context, std::stoull(arguments.at(1)));
  if (!service || ripc_group_join(service.get(), kGroup) != RIPC_OK) return 2;
  for (std::uint32_t expected = 1;;) {
    const Message message = receive(service);
    if (!message) return 3;
    const std::uint32_t tag = ripc_message_get_tag(message.get());
    if (tag == 0) continue;  // the sender checks which members are there
    if (tag == kEnd) return 0;
    if (tag != expected++) {
      std::fprintf(stderr, "member %s on %s: message %u instead of %u\n", arguments[1].c_str(), arguments[2].c_str(),
                   tag, expected - 1);
      return 4;
    }
  }
}

struct Sent {
  ripc_status status = RIPC_OK;
  std::uint32_t members = 0;
  std::vector<ripc_service_id> missed;
};

Sent send_to_group(const Service& from, std::uint32_t tag) {
  std::array<ripc_service_id, 16> missed{};
  ripc_group_outcome outcome{sizeof outcome, 0, 0, missed.data(), missed.size()};
  ripc_send_options options;
  ripc_send_options_init(&options);
  options.tag = tag;
  options.outcome = &outcome;
  Sent sent;
  sent.status = ripc_send(from.get(), kGroup, nullptr, 0, &options, nullptr);
  sent.members = outcome.members;
  const std::size_t count = std::min<std::size_t>(outcome.members - outcome.taken, missed.size());
  sent.missed.assign(missed.begin(), missed.begin() + static_cast<std::ptrdiff_t>(count));
  return sent;
}

// Sends the message to one member that missed it. A dead member need not get it.
void send_to_one(const Service& from, ripc_service_id to, std::uint32_t tag) {
  ripc_send_options options;
  ripc_send_options_init(&options);
  options.tag = tag;
  for (;;) {
    const ripc_status status = ripc_send(from.get(), to, nullptr, 0, &options, nullptr);
    if (status != RIPC_AGAIN) return;
    (void)ripc_wait_room(from.get(), to, kLimit);
  }
}

void send_to_all(const Service& from, std::uint32_t tag) {
  const Sent sent = send_to_group(from, tag);
  EXPECT_TRUE(sent.status == RIPC_OK || sent.status == RIPC_AGAIN || sent.status == RIPC_PEER_DEAD)
      << ripc_status_name(sent.status) << ": " << ripc_last_error();
  for (const ripc_service_id missed : sent.missed) send_to_one(from, missed, tag);
}

TEST(GroupKill, TheOthersReceiveEachMessageOnceAndTheDeadLeaveTheList) {
  const auto [rounds, seed] = rounds_from_environment(10);
  Random random(seed);
  const TemporaryDirectory directory;
  const Context context = make_context(directory.path(), 0, "shm,socket");
  const Service sender = make_service(context, kSender);
  ASSERT_TRUE(sender);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<Process> processes;
    for (std::size_t index = 0; index < 2 * kPaths.size(); ++index)
      processes.emplace_back("member", std::vector<std::string>{directory.path(), std::to_string(kFirstMember + index),
                                                                kPaths[index % kPaths.size()]});
    // Once the sender sees all members it is connected to them, so the list no longer grows.
    ASSERT_TRUE(eventually([&] {
      const Sent sent = send_to_group(sender, 0);
      return sent.members == processes.size() && sent.missed.empty();
    })) << "not all members are seen";
    // One member of each path dies, at different times; the last message is sent when they are dead.
    constexpr std::uint32_t kMessages = 600;
    std::array<std::uint64_t, kPaths.size()> deaths{};
    for (std::uint64_t& death : deaths) death = 1 + random.below(kMessages);
    for (std::uint32_t tag = 1; tag <= kMessages; ++tag) {
      for (std::size_t index = 0; index < deaths.size(); ++index) {
        if (deaths[index] == tag) processes[index].kill();
      }
      send_to_all(sender, tag);
    }
    std::set<ripc_service_id> living;
    for (std::size_t index = deaths.size(); index < processes.size(); ++index) living.insert(kFirstMember + index);
    std::set<ripc_service_id> listed;
    const auto add = [](void* user, const ripc_service_info* info) {
      EXPECT_TRUE(static_cast<std::set<ripc_service_id>*>(user)->insert(info->id).second) << "listed twice";
    };
    ASSERT_EQ(ripc_group_members(context.get(), kGroup, add, &listed), RIPC_OK) << ripc_last_error();
    EXPECT_EQ(listed, living);
    send_to_all(sender, kEnd);
    for (std::size_t index = deaths.size(); index < processes.size(); ++index)
      EXPECT_EQ(processes[index].wait(), 0) << "member " << index << " on " << kPaths[index % kPaths.size()];
    EXPECT_TRUE(eventually([&] { return send_to_group(sender, 0).status == RIPC_NO_SERVICE; }));
  }
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) { return fault::run(argc, argv, {{"member", fault::member}}); }
