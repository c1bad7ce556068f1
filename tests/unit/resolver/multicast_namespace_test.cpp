// SPDX-License-Identifier: Apache-2.0
// The multicast resolver between two hosts, which are network namespaces with a virtual cable between them. The cases
// are no default route, IPv4 and IPv6, and interfaces that come and go.
#include <fcntl.h>
#include <sched.h>

#include <fstream>
#include <thread>

#include "multicast_helpers.hpp"
#include "support/command.hpp"

namespace ripc::internal::test {
namespace {

using resolver::parse_multicast_options;

bool run(const std::string& command) { return support::run_command(command, support::Output::dropped); }

// Two namespaces, `a` with the interface ra and `b` with rb.
class TwoHosts {
 public:
  TwoHosts() : name_("ripc-" + std::to_string(random_u64() % 1'000'000'000)) {
    ready_ = run("ip netns add " + a()) && run("ip netns add " + b()) &&
             run("ip -n " + a() + " link add ra type veth peer name rb netns " + b());
    for (const auto& [host, interface, number] :
         {std::tuple{a(), std::string("ra"), "1"}, std::tuple{b(), std::string("rb"), "2"}}) {
      ready_ = ready_ && run("ip -n " + host + " addr add 10.77.0." + number + "/24 dev " + interface) &&
               run("ip -n " + host + " addr add fd77::" + number + "/64 dev " + interface + " nodad") &&
               run("ip -n " + host + " link set " + interface + " up") && run("ip -n " + host + " link set lo up");
    }
  }
  ~TwoHosts() {
    run("ip netns del " + a());
    run("ip netns del " + b());
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  bool ready() const { return ready_; }
  std::string a() const { return name_ + "a"; }
  std::string b() const { return name_ + "b"; }

  // Runs `make` in the namespace, so that the sockets it opens and the thread it starts belong there.
  template <typename Make>
  auto in(const std::string& host, const Make& make) {
    decltype(make()) made{};
    std::thread thread([&] {
      const UniqueFd space(::open(("/run/netns/" + host).c_str(), O_RDONLY | O_CLOEXEC));
      ASSERT_TRUE(space);
      ASSERT_EQ(::setns(space.get(), CLONE_NEWNET), 0);
      made = make();
    });
    thread.join();
    return made;
  }
  std::unique_ptr<MulticastContext> context(const std::string& host, const MulticastOptions& options) {
    return in(host, [&] { return std::make_unique<MulticastContext>(options); });
  }

 private:
  const std::string name_;
  bool ready_ = false;
};

class MulticastHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root makes network namespaces";
    if (!run("ip -V")) GTEST_SKIP() << "the command ip (iproute2) is not installed";
    hosts_ = std::make_unique<TwoHosts>();
    if (!hosts_->ready()) GTEST_SKIP() << "network namespaces with a veth pair cannot be made here";
  }
  static MulticastOptions options(const std::string& text) {
    Result<MulticastOptions> options = parse_multicast_options(text);
    EXPECT_TRUE(options.ok()) << options.status().text();
    options->hash_name = core::id_of_name;
    return *options;
  }
  std::unique_ptr<TwoHosts> hosts_;
};

TEST_F(MulticastHosts, ServicesAreFoundWithoutAnyRouteForMulticast) {
  for (const char* text : {"", "239.255.82.73", "ff12::5249:5043", "239.1.2.3:7777%ra,interface=rb"}) {
    const auto holder = hosts_->context(hosts_->a(), options(text));
    const auto asker = hosts_->context(hosts_->b(), options(text));
    const spi::ServiceRecord record = holder->publish(7);
    const Result<spi::ServiceRecord> found = asker->resolve(7);
    ASSERT_TRUE(found.ok()) << text << ": " << found.status().text();
    EXPECT_EQ(*found, record);
  }
}

TEST_F(MulticastHosts, APacketThatComesByBothGroupsCountsOnce) {
  const auto holder = hosts_->context(hosts_->a(), options(""));
  const auto asker = hosts_->context(hosts_->b(), options(""));
  holder->publish(7);
  ASSERT_TRUE(asker->resolve(7).ok());
  // The earlier probe and announcement, or the question, arrive over both IPv4 and IPv6.
  EXPECT_TRUE(eventually([&] { return (*asker)->counters().copies + (*holder)->counters().copies != 0; }));
  EXPECT_EQ((*asker)->counters().outdated, 0U);
}

TEST_F(MulticastHosts, AServiceThatMovedToAnotherHostIsFollowed) {
  const auto asker = hosts_->context(hosts_->a(), options(""));
  auto first = hosts_->context(hosts_->a(), options(""));
  const spi::ServiceRecord before = first->publish(7);
  ASSERT_EQ(*asker->resolve(7), before);
  first->end();
  const auto second = hosts_->context(hosts_->b(), options(""));
  const spi::ServiceRecord after = second->publish(7);
  (*asker)->invalidate(before);
  EXPECT_EQ(*asker->resolve(7), after);
}

TEST_F(MulticastHosts, AnInterfaceThatComesLaterIsUsed) {
  ASSERT_TRUE(run("ip -n " + hosts_->b() + " link set rb down"));
  const auto holder = hosts_->context(hosts_->a(), options("239.255.82.73%ra,interface=rb"));
  const auto asker = hosts_->context(hosts_->b(), options("239.255.82.73%ra,interface=rb"));
  EXPECT_TRUE((*asker)->state().networks.front().interfaces.empty());
  const spi::ServiceRecord record = holder->publish(7);
  ASSERT_TRUE(run("ip -n " + hosts_->b() + " link set rb up"));
  EXPECT_TRUE(eventually([&] { return !(*asker)->state().networks.front().interfaces.empty(); }));
  EXPECT_EQ(*asker->resolve(7), record);
  ASSERT_TRUE(run("ip -n " + hosts_->b() + " link set rb down"));
  EXPECT_TRUE(eventually([&] { return (*asker)->state().networks.front().interfaces.empty(); }));
}

TEST_F(MulticastHosts, AGroupThatCouldNotBeJoinedIsJoinedALittleLater) {
  const auto set = [&](const char* setting, int value) {
    return hosts_->in(hosts_->a(), [&] {
      return static_cast<bool>(std::ofstream(std::string("/proc/sys/net/") + setting) << value << std::flush);
    });
  };
  // Without IPv6, so that no address changes later.
  if (!set("ipv6/conf/all/disable_ipv6", 1) || !set("ipv4/igmp_max_memberships", 0))
    GTEST_SKIP() << "the network's settings cannot be changed here";
  const auto host = hosts_->context(hosts_->a(), options("239.255.82.73"));
  EXPECT_TRUE((*host)->state().networks.front().interfaces.empty());
  ASSERT_TRUE(set("ipv4/igmp_max_memberships", 20));
  EXPECT_TRUE(eventually([&] { return !(*host)->state().networks.front().interfaces.empty(); }));
}

TEST_F(MulticastHosts, WithHalfOfThePacketsLostServicesAreStillFound) {
  if (!run("ip netns exec " + hosts_->b() + " tc qdisc add dev rb root netem loss 50%"))
    GTEST_SKIP() << "tc netem is not available";
  const auto holder = hosts_->context(hosts_->a(), options("239.255.82.73"));
  const auto asker = hosts_->context(hosts_->b(), options("239.255.82.73"));
  // Such IDs are published without asking, and what they announce before the asker is there cannot be heard.
  for (ripc_service_id id = 1; id <= 20; ++id) {
    const spi::ServiceRecord record = holder->publish((ripc_service_id{3} << 62) | id);
    const Result<spi::ServiceRecord> found = asker->resolve(record.id);
    ASSERT_TRUE(found.ok()) << found.status().text();
  }
}

}  // namespace
}  // namespace ripc::internal::test
