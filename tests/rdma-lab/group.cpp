// SPDX-License-Identifier: Apache-2.0
// Runs on the nodes of the lab: services in a group, and a sender, over RDMA.
//
//   lab_group listen MEMBERS    MEMBERS services in the group, until each has received a goodbye; prints
//                               {"received": [...], "goodbyes": [...], "lost": [...]}: messages to the group, the
//                               number of the first goodbye that came, and what is missing before that, or came too
//                               late
//   lab_group send MEMBERS COUNT
//                               sends to them until each message is one packet for all; prints "multicast", sends COUNT
//                               messages, prints "end", and says goodbye to each member until it answers; prints
//                               {"messages": N, "missed": M, "full": F, "together": T}: all messages to the group;
//                               copies that a member had no room for; of the COUNT messages, those that some member had
//                               no room for; and those that were one packet for several members
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ripc/ripc.hpp"

namespace {

using ripc::Nanoseconds;

constexpr const char* kGroup = "lab-group";
constexpr Nanoseconds kMoment{10'000'000};  // for an answer
constexpr Nanoseconds kLook{1'000'000};
constexpr Nanoseconds kMostWait{1'000'000'000};  // for room at one member
// Tags that are answered with the same tag.
constexpr std::uint32_t kQuestion = 1;
constexpr std::uint32_t kGoodbye = 1u << 31;  // with its number
constexpr std::uint32_t kSample = 20;         // messages
constexpr int kMostLooks = 20'000;
constexpr int kMostFailures = 100;  // of sends to members that were all there

[[noreturn]] void fail(const char* what, const ripc::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "lab_group: %s: %s: %s\n", what, error.name(), text.c_str());
  std::exit(1);
}

template <typename T>
T expect(const char* what, ripc::Result<T> result) {
  if (!result.ok()) fail(what, result.error());
  return std::move(*result);
}

template <typename T>
std::string list(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

int listen(ripc::Context& context, std::size_t members) {
  std::vector<ripc::Service> services;
  for (std::size_t index = 0; index < members; ++index) {
    services.push_back(expect("no service", context.register_service()));
    const auto joined = services.back().join(expect("no group", ripc::group_id_from_name(kGroup)));
    if (!joined.ok()) fail("join", joined);
  }
  std::vector<std::uint32_t> goodbyes(members);
  std::vector<std::uint64_t> received(members), lost(members);
  while (std::count(goodbyes.begin(), goodbyes.end(), 0u) != 0) {
    for (std::size_t index = 0; index < members; ++index) {
      auto message = services[index].receive(kLook);
      if (!message.ok()) continue;
      const bool is_goodbye = (message->tag() & kGoodbye) != 0;
      if (is_goodbye && goodbyes[index] == 0) {
        goodbyes[index] = message->tag() - kGoodbye;
        // A message to one member also shows which earlier messages to the group are missing.
        const auto seen = expect("no statistics", services[index].statistics());
        lost[index] = seen.packets_lost + seen.packets_late;
      }
      if (!is_goodbye) ++received[index];
      if (message->tag() != 0) (void)services[index].reply(*message, {}, {.tag = is_goodbye ? kGoodbye : kQuestion});
    }
  }
  std::printf("{\"received\": %s, \"goodbyes\": %s, \"lost\": %s}\n", list(received).c_str(), list(goodbyes).c_str(),
              list(lost).c_str());
  return 0;
}

class Sender {
 public:
  Sender(ripc::Context& context, std::vector<ripc::ServiceId> members)
      : members_(members.size()),
        known_(std::move(members)),
        service_(expect("no service", context.register_service())) {}

  struct Sent {
    std::uint64_t full = 0;      // messages that some member had no room for
    std::uint64_t together = 0;  // messages that were one packet for several members
  };
  Sent send(std::uint32_t count) {
    const Sent before = so_far();
    for (std::uint32_t index = 1; index <= count; ++index) {
      const bool asks = index % kSample == 0;
      send_one(asks ? kQuestion : 0);
      // Answers may be lost.
      for (std::size_t answers = 0; asks && answers < members_ && service_.receive(kMoment).ok(); ++answers) {
      }
    }
    const Sent after = so_far();
    return {after.full - before.full, after.together - before.together};
  }
  // Goes on until each member has answered, or is gone: the last answer may be lost.
  void say_goodbye(ripc::Context& context) {
    for (const ripc::ServiceInfo& member : expect("no members", context.members(group_))) {
      int failures = 0;
      for (std::uint32_t number = 1; failures < kMostFailures; ++number) {
        const auto sent = service_.send(member.id, {}, {.tag = kGoodbye | number});
        if (!sent.ok()) --number;
        failures = sent.ok() ? 0 : failures + 1;
        auto said = service_.receive(10 * kMoment);
        while (said.ok() && said->source() != member.id) said = service_.receive(10 * kMoment);
        if (said.ok() && said->tag() == kGoodbye) break;
      }
    }
  }
  std::uint32_t sent() const { return sent_; }
  std::uint64_t missed() const { return missed_; }

 private:
  Sent so_far() { return {full_, expect("no statistics", service_.statistics()).group_packets}; }

  void send_one(std::uint32_t tag) {
    // A busy receiver gives no room for a while. If all have room, no copy has to travel separately.
    for (const ripc::ServiceId member : known_) (void)service_.wait_room(member, kMostWait);
    for (int look = 0; look < kMostLooks; ++look) {
      ripc::GroupOutcome outcome;
      const auto sent = service_.send(group_, {}, {.tag = tag, .outcome = &outcome});
      if (sent.ok() && outcome.members == members_) {
        ++sent_;
        missed_ += outcome.members - outcome.taken;
        full_ += outcome.taken != outcome.members ? 1 : 0;
        return;
      }
      // For a moment no member has room.
      if (sent.ok()) fail("some members are not known", {});
      (void)service_.receive(kMoment);
    }
    fail("send", {});
  }

  const std::size_t members_;
  const std::vector<ripc::ServiceId> known_;
  const ripc::ServiceId group_ = expect("no group", ripc::group_id_from_name(kGroup));
  ripc::Service service_;
  std::uint32_t sent_ = 0;
  std::uint64_t missed_ = 0;
  std::uint64_t full_ = 0;
};

int send(ripc::Context& context, std::size_t members, std::uint32_t count) {
  const auto group = expect("no group", ripc::group_id_from_name(kGroup));
  std::vector<ripc::ServiceId> known;
  for (int look = 0; known.size() < members; ++look) {
    if (look == kMostLooks) fail("there are not so many members", {});
    if (look != 0) usleep(1000);
    known.clear();
    for (const ripc::ServiceInfo& member : expect("no members", context.members(group))) known.push_back(member.id);
  }
  Sender sender(context, std::move(known));
  int looks = 0;
  while (sender.send(kSample).together != kSample) {
    if (++looks == kMostLooks) fail("it is never one packet for all", {});
    usleep(1000);
  }
  std::puts("multicast");
  std::fflush(stdout);
  const Sender::Sent sent = sender.send(count);
  std::puts("end");
  std::fflush(stdout);
  sender.say_goodbye(context);
  std::printf("{\"messages\": %u, \"missed\": %llu, \"full\": %llu, \"together\": %llu}\n", sender.sent(),
              static_cast<unsigned long long>(sender.missed()), static_cast<unsigned long long>(sent.full),
              static_cast<unsigned long long>(sent.together));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view role = argc > 2 ? argv[1] : "";
  if (!(role == "listen" && argc == 3) && !(role == "send" && argc == 4)) {
    std::fputs("usage: lab_group listen MEMBERS | lab_group send MEMBERS COUNT\n", stderr);
    return 2;
  }
  auto context = expect("no context", ripc::Context::create());
  const std::size_t members = std::strtoul(argv[2], nullptr, 10);
  return role == "listen" ? listen(context, members)
                          : send(context, members, static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10)));
}
