// SPDX-License-Identifier: Apache-2.0
#include "hosts.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "support/command.hpp"

namespace fault {

namespace {

int space_of_this_process() { return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC); }

bool ip(const std::string& arguments) { return support::run_command("ip " + arguments); }

// Makes the interface in this thread's namespace.
int open_tun() {
  const int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  ifreq request{};
  std::strncpy(request.ifr_name, Hosts::kCable, sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (fd < 0 || ioctl(fd, TUNSETIFF, &request) == 0) return fd;
  close(fd);
  return -1;
}

// A column of the cable's line in /proc/net/dev.
std::uint64_t cable_counter(const char* cable, int column) {
  std::ifstream file("/proc/self/net/dev");
  const std::string name = std::string(cable) + ':';
  for (std::string line; std::getline(file, line);) {
    const std::size_t start = line.find(name);
    if (start == std::string::npos) continue;
    const std::size_t colon = start + name.size() - 1;
    std::istringstream numbers(line.substr(colon + 1));
    std::uint64_t number = 0;
    for (int index = 0; index <= column; ++index) numbers >> number;
    return number;
  }
  return 0;
}

// A counter of the host that this thread is on.
std::uint64_t protocol_counter(const char* protocol, const char* wanted) {
  std::ifstream file("/proc/self/net/snmp");
  std::string names;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(protocol)) continue;
    if (names.empty()) {
      names = line;
      continue;
    }
    std::istringstream columns(names);
    std::istringstream values(line);
    std::string name;
    std::string value;
    while (columns >> name && values >> value) {
      if (name == wanted) return std::stoull(value);
    }
  }
  return 0;
}

}  // namespace

Hosts::Hosts(Cable cable) {
  if (geteuid() != 0) {
    obstacle_ = "only root makes network namespaces";
    return;
  }
  if (!ip("-batch /dev/null")) {
    obstacle_ = "the command ip (iproute2) is not installed";
    return;
  }
  if (!make_spaces(cable) || !lay_cable(cable)) {
    obstacle_ = "network namespaces with veth pairs, a bridge or TUN interfaces cannot be made here";
    return;
  }
  const bool ipv6 = cable == Cable::direct_ipv6;
  const auto set_up = [&](int space, const char* address) {
    if (space < 0) return;
    EXPECT_TRUE(enter(space));
    EXPECT_TRUE(ip("link set lo up"));
    EXPECT_TRUE(ip(std::string("address add ") + address + (ipv6 ? "/64 nodad dev " : "/24 dev ") + kCable));
    // The transmit queue holds all that credits allow, so that only the relay decides what is lost.
    EXPECT_TRUE(ip(std::string("link set ") + kCable + " up txqueuelen 10000"));
  };
  if (cable == Cable::two || cable == Cable::relayed_and_direct) lay_second_cable();
  set_up(third_, kThird);
  set_up(there_, ipv6 ? kThere6 : kThere);
  set_up(here_, ipv6 ? kHere6 : kHere);
}

Hosts::~Hosts() {
  if (home_ >= 0) enter(home_);
  for (const int space : {home_, here_, there_, third_, switch_}) {
    if (space >= 0) close(space);
  }
}

// Returns with this thread in the namespace `here_`.
bool Hosts::make_spaces(Cable cable) {
  home_ = space_of_this_process();
  const auto make = [](int& space) {
    if (unshare(CLONE_NEWNET) == 0) space = space_of_this_process();
    return space >= 0;
  };
  if (cable == Cable::three_on_a_switch && !(make(switch_) && make(third_))) return false;
  return make(there_) && make(here_);
}

bool Hosts::lay_cable(Cable cable) {
  switch (cable) {
    case Cable::relayed:
    case Cable::relayed_and_direct:
      return lay_relayed_cable();
    case Cable::three_on_a_switch:
      return enter(switch_) && ip("link add switch type bridge") && ip("link set switch up") &&
             plug_into_switch(third_) && plug_into_switch(there_) && plug_into_switch(here_);
    default: {
      const std::string other_end = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(there_);
      return ip(std::string("link add ") + kCable + " type veth peer name " + kCable + " netns " + other_end);
    }
  }
}

// Starts and ends on this host. Both cables get a rate: without one, the processor would decide which cable carries
// what.
void Hosts::lay_second_cable() const {
  const std::string other_end = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(there_);
  EXPECT_TRUE(ip(std::string("link add ") + kCable2 + " type veth peer name " + kCable2 + " netns " + other_end));
  for (const auto& [space, address] : {std::pair(there_, "10.79.0.2"), std::pair(here_, "10.79.0.1")}) {
    EXPECT_TRUE(enter(space));
    EXPECT_TRUE(ip(std::string("address add ") + address + "/24 dev " + kCable2));
    EXPECT_TRUE(ip(std::string("link set ") + kCable2 + " up"));
    shape(kCable, "1gbit");
    shape(kCable2, "1gbit");
  }
}

void Hosts::shape(const std::string& cable, const std::string& rate) {
  EXPECT_TRUE(
      support::run_command("tc qdisc replace dev " + cable + " root tbf rate " + rate + " burst 256kb latency 50ms"));
}

bool Hosts::plug_into_switch(int space) const {
  const std::string socket = "socket" + std::to_string(space);
  const std::string host = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(space);
  return enter(switch_) && ip("link add " + socket + " type veth peer name " + kCable + " netns " + host) &&
         ip("link set " + socket + " master switch up") && enter(space);
}

bool Hosts::lay_relayed_cable() {
  const int one = open_tun();
  const int other = enter(there_) ? open_tun() : -1;
  if (!enter(here_) || one < 0 || other < 0) {
    if (one >= 0) close(one);
    if (other >= 0) close(other);
    return false;
  }
  const std::uint64_t seed = number_from_environment("RIPC_FAULT_SEED", 20240229);
  relay_ = std::make_unique<Relay>(one, other, seed);
  return true;
}

bool Hosts::enter(int space) const { return setns(space, CLONE_NEWNET) == 0; }

void Hosts::here(const std::string& arguments) const { EXPECT_TRUE(ip(arguments)) << "ip " << arguments; }

void Hosts::there(const std::string& arguments, Host host) const {
  EXPECT_TRUE(enter(space_of(host)));
  here(arguments);
  EXPECT_TRUE(enter(here_));
}

void Hosts::plug(bool up, const char* cable) const {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strncpy(request.ifr_name, cable, sizeof request.ifr_name - 1);
  EXPECT_EQ(ioctl(fd, SIOCGIFFLAGS, &request), 0) << std::strerror(errno);
  const int flags = up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
  request.ifr_flags = static_cast<short>(flags);
  EXPECT_EQ(ioctl(fd, SIOCSIFFLAGS, &request), 0) << std::strerror(errno);
  close(fd);
}

Process Hosts::start_there(const std::string& role, const std::vector<std::string>& arguments, Host host) const {
  EXPECT_TRUE(enter(space_of(host)));
  Process process(role, arguments);
  EXPECT_TRUE(enter(here_));
  return process;
}

std::uint64_t Hosts::received() { return cable_counter(kCable, 0); }
std::uint64_t Hosts::transmitted(const char* cable) { return cable_counter(cable, 8); }

std::size_t Hosts::connections() {
  std::size_t count = 0;
  for (const char* name : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(name);
    std::string line;
    std::getline(file, line);  // the heading
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string number;
      std::string local;
      std::string remote;
      std::string state;
      words >> number >> local >> remote >> state;
      if (state == "01") ++count;
    }
  }
  return count;
}

std::uint64_t Hosts::dials() { return protocol_counter("Tcp:", "ActiveOpens"); }

std::uint64_t Hosts::dropped_there() const {
  EXPECT_TRUE(enter(there_));
  const std::uint64_t dropped = protocol_counter("Udp:", "RcvbufErrors");
  EXPECT_TRUE(enter(here_));
  return dropped;
}

}  // namespace fault
