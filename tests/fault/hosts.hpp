// SPDX-License-Identifier: Apache-2.0
// Two or three hosts: network namespaces joined by a cable or a switch. The test runs on one of them; the processes of
// start_there() run on another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fault_support.hpp"
#include "relay.hpp"

namespace fault {

// The interface is named `cable` on each host. Only one object at a time, used by the main thread only, because that
// thread moves to the new host.
class Hosts {
 public:
  static constexpr const char* kHere = "10.78.0.1";
  static constexpr const char* kThere = "10.78.0.2";
  static constexpr const char* kThird = "10.78.0.9";
  static constexpr const char* kCable = "cable";
  static constexpr const char* kCable2 = "cable2";
  // The addresses of hosts without IPv4.
  static constexpr const char* kHere6 = "fd78::1";
  static constexpr const char* kThere6 = "fd78::2";

  // two: a second cable next to the direct one, with the interface `cable2` and addresses of 10.79.0.0/24; 1 Gb/s each.
  // relayed_and_direct: the same second cable next to a relayed one.
  enum class Cable { direct, direct_ipv6, relayed, three_on_a_switch, two, relayed_and_direct };
  // The hosts other than the one that the test runs on.
  enum class Host { there, third };
  explicit Hosts(Cable cable = Cable::direct);
  ~Hosts();  // returns to the original namespace; the hosts vanish with their last process
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  // "", or why there are no hosts.
  const std::string& obstacle() const { return obstacle_; }

  // Runs the command `ip` with these arguments on one of the hosts. If it fails, so does the test.
  void here(const std::string& arguments) const;
  void there(const std::string& arguments, Host host = Host::there) const;
  // Takes this host's end of a cable down or up.
  void plug(bool up, const char* cable = kCable) const;
  // Limits the rate at which this thread's host sends over a cable, in the syntax of tc.
  static void shape(const std::string& cable, const std::string& rate);
  // The relay that makes the weather on a relayed cable.
  Relay& relay() const { return *relay_; }
  Process start_there(const std::string& role, const std::vector<std::string>& arguments,
                      Host host = Host::there) const;

  // Bytes that this host sent or received over a cable, with all headers.
  static std::uint64_t transmitted(const char* cable = kCable);
  static std::uint64_t received();
  // TCP connections of this host that its kernel considers established.
  static std::size_t connections();
  // TCP connections that this host has tried to make since the test began.
  static std::uint64_t dials();
  // Datagrams that the kernel of the other host dropped because a socket had no room for them.
  std::uint64_t dropped_there() const;

 private:
  bool enter(int space) const;
  int space_of(Host host) const { return host == Host::there ? there_ : third_; }
  bool make_spaces(Cable cable);
  bool lay_cable(Cable cable);
  bool lay_relayed_cable();
  void lay_second_cable() const;
  bool plug_into_switch(int space) const;

  int home_ = -1;
  int here_ = -1;
  int there_ = -1;
  int third_ = -1;
  int switch_ = -1;
  std::string obstacle_;
  std::unique_ptr<Relay> relay_;
};

}  // namespace fault
