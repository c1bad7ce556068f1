// SPDX-License-Identifier: Apache-2.0
// Tests networks other than two hosts with IPv4: hosts that have only IPv6, and three hosts on a switch.
#include <gtest/gtest.h>

#include <set>

#include "fault_support.hpp"
#include "hosts_fixture.hpp"

namespace fault {
namespace {

constexpr ripc_service_id kGroup = RIPC_GROUP_ID(3000);
constexpr ripc_service_id kMemberThere = 3101;
constexpr ripc_service_id kMemberThird = 3102;

// The role: answers every message to the group; arguments DIRECTORY ID. Runs until it is killed.
int member(const std::vector<std::string>& arguments) {
  const Context context = make_far_context(arguments.at(0));
  const Service service = make_service(context, std::stoull(arguments.at(1)));
  if (!service || ripc_group_join(service.get(), kGroup) != RIPC_OK) return 1;
  for (;;) {
    const Message message = receive(service, RIPC_FOREVER);
    if (!message) return 1;
    ripc_send_options options;
    ripc_send_options_init(&options);
    options.tag = ripc_message_get_tag(message.get());
    (void)ripc_reply(service.get(), message.get(), nullptr, 0, &options, nullptr);
  }
}

class Ipv6Only : public HostTest {
 protected:
  Ipv6Only() : HostTest(Hosts::Cable::direct_ipv6) {}
};

TEST_F(Ipv6Only, HostsFindEachOtherAndExchangeShortAndLongMessages) {
  ASSERT_NO_FATAL_FAILURE(start(kSecond));
  ASSERT_NO_FATAL_FAILURE(exchange_long(100));
  const std::string path = path_to_holder(asker_->context()).reason;
  EXPECT_NE(path.find(Hosts::kThere6), std::string::npos) << path;
  const std::string_view before_number = "UDP packets of up to ";
  ASSERT_NE(path.find(before_number), std::string::npos) << path;
  const std::size_t datagram = std::stoul(path.substr(path.find(before_number) + before_number.size()));
  EXPECT_GT(datagram, 1000u);
  EXPECT_LT(datagram, 1500u - 40 - 8) << "the headers of IPv6 and UDP are larger than what is left";
  std::size_t limit = 0;
  ASSERT_EQ(ripc_short_limit(asker_->service().get(), kHolder, 1, &limit), RIPC_OK) << ripc_last_error();
  const std::optional<Told> before = asker_->ask();
  ASSERT_TRUE(before);
  EXPECT_EQ(send_short(asker_->service(), kHolder, 7, limit), RIPC_OK) << ripc_last_error();
  const std::optional<Told> after = asker_->ask();
  ASSERT_TRUE(after);
  EXPECT_EQ(after->whole, before->whole + 1) << "the largest message that the limit allows did not come";
}

TEST_F(Ipv6Only, AServiceThatStartsAgainIsFollowed) {
  ASSERT_NO_FATAL_FAILURE(start(kSecond));
  process_.kill();
  start_holder();
  ASSERT_TRUE(asker_->ask()) << ripc_last_error();
  ASSERT_NO_FATAL_FAILURE(exchange_long(100));
}

class ThreeHosts : public HostTest {
 protected:
  ThreeHosts() : HostTest(Hosts::Cable::three_on_a_switch) {}

  Process start_on_third() { return hosts_.start_there("holder", {directory_third_.path()}, Hosts::Host::third); }
  std::set<ripc_service_id> who_answers(std::uint32_t tag) {
    ripc_send_options options;
    ripc_send_options_init(&options);
    options.tag = tag;
    if (ripc_send(asker_->service().get(), kGroup, nullptr, 0, &options, nullptr) != RIPC_OK) return {};
    std::set<ripc_service_id> answered;
    for (const std::uint64_t until = now() + kSecond; now() < until && answered.size() < 2;) {
      const Message message = receive(asker_->service(), until - now());
      if (!message || ripc_message_get_tag(message.get()) != tag) continue;
      EXPECT_TRUE(answered.insert(ripc_message_get_source(message.get())).second) << "it had the message twice";
    }
    return answered;
  }
  bool answer(const std::set<ripc_service_id>& expected) {
    return eventually([&] { return who_answers(++tag_) == expected; });
  }

  const TemporaryDirectory directory_third_;
  std::uint32_t tag_ = 1000;
};

TEST_F(ThreeHosts, AServiceThatMovesToTheThirdHostIsFollowed) {
  ASSERT_NO_FATAL_FAILURE(start(kSecond));
  ASSERT_NO_FATAL_FAILURE(exchange_long(100));
  process_.kill();
  process_ = start_on_third();
  ASSERT_TRUE(asker_->ask()) << ripc_last_error();
  const std::string path = path_to_holder(asker_->context()).reason;
  EXPECT_NE(path.find(Hosts::kThird), std::string::npos) << path;
  ASSERT_NO_FATAL_FAILURE(exchange_long(200));
}

TEST_F(ThreeHosts, AServiceThatIsTakenOverByTheThirdHostIsFencedOnTheSecondAndFollowed) {
  ASSERT_NO_FATAL_FAILURE(start(kSecond));
  Process successor = start_on_third();
  EXPECT_EQ(process_.wait(), 1) << "the former holder was not told";
  ASSERT_TRUE(asker_->ask()) << ripc_last_error();
  const std::string path = path_to_holder(asker_->context()).reason;
  EXPECT_NE(path.find(Hosts::kThird), std::string::npos) << path;
  ASSERT_NO_FATAL_FAILURE(exchange_long(200));
}

TEST_F(ThreeHosts, AHostWhoseProcessesAllDieWithItsNetworkIsReplacedByTheThird) {
  ASSERT_NO_FATAL_FAILURE(start(kSecond));
  Ticket ticket;
  const std::uint64_t before = Hosts::transmitted();
  ASSERT_EQ(asker_->send_long(kLong, 1, ticket), RIPC_OK) << ripc_last_error();
  ASSERT_TRUE(eventually([&] { return Hosts::transmitted() > before + kLong / 5; }));
  // A stopped process cannot announce its end.
  process_.signal(SIGSTOP);
  hosts_.there("link set cable down");
  const ripc_status status = ripc_ticket_poll(ticket.get());
  process_.kill();
  ASSERT_EQ(status, RIPC_PENDING);
  process_ = start_on_third();
  EXPECT_EQ(ripc_ticket_wait(ticket.get(), kLimit), RIPC_PEER_DEAD);
  ASSERT_TRUE(asker_->ask()) << ripc_last_error();
  EXPECT_EQ(asker_->ask()->whole, 0u);
  ASSERT_NO_FATAL_FAILURE(exchange_long(200));
}

TEST_F(ThreeHosts, AGroupReachesEachHostOnceAndForgetsTheOneThatIsCutOff) {
  ASSERT_NO_FATAL_FAILURE(start(kSecond));
  const TemporaryDirectory directory_there;
  const Process there = hosts_.start_there("member", {directory_there.path(), std::to_string(kMemberThere)});
  const Process third =
      hosts_.start_there("member", {directory_third_.path(), std::to_string(kMemberThird)}, Hosts::Host::third);
  EXPECT_TRUE(answer({kMemberThere, kMemberThird}));
  hosts_.there("link set cable down", Hosts::Host::third);
  EXPECT_TRUE(answer({kMemberThere}));
  // The host that is not cut off must not be delayed.
  ASSERT_NO_FATAL_FAILURE(exchange_long(100));
  hosts_.there("link set cable up", Hosts::Host::third);
  EXPECT_TRUE(answer({kMemberThere, kMemberThird})) << "the host does not come back";
}

}  // namespace
}  // namespace fault

int main(int argc, char** argv) {
  return fault::run(argc, argv, {{"holder", fault::holder}, {"member", fault::member}});
}
