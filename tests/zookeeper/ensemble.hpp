// SPDX-License-Identifier: Apache-2.0
// Three real ZooKeeper servers on the loopback interface, for tests, and a relay that can be cut.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "support/temporary_directory.hpp"

namespace zookeeper_tests {

// Why the servers cannot run here; "" if they can.
std::string why_not();

class Ensemble {
 public:
  static constexpr std::size_t kServers = 3;

  // Starts all servers and waits until they serve.
  Ensemble();
  ~Ensemble();
  Ensemble(const Ensemble&) = delete;
  Ensemble& operator=(const Ensemble&) = delete;

  // HOST:PORT,... of all servers, and /FOLDER.
  std::string text(const std::string& folder) const;
  std::uint16_t port(std::size_t server) const { return ports_[server].client; }
  // The number of the leader; kServers if there is none.
  std::size_t leader() const;
  std::size_t serving() const;

  void start(std::size_t server);
  void kill(std::size_t server);
  // Kills all servers and deletes all that they have stored.
  void lose_disks();
  void pause(std::size_t server);
  void go_on(std::size_t server);
  // Starts the servers that do not run and waits until all serve.
  void heal();

 private:
  struct Ports {
    std::uint16_t client;
    std::uint16_t peers;
    std::uint16_t election;
  };
  support::TemporaryDirectory directory_;
  std::array<Ports, kServers> ports_{};
  std::array<pid_t, kServers> pids_{};
};

// Passes TCP connections on to a server until cut() is called.
class Relay {
 public:
  explicit Relay(std::uint16_t target);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::uint16_t port() const { return port_; }
  // Ends all connections; new ones end at once.
  void cut() { is_cut_ = true; }
  void restore() { is_cut_ = false; }

 private:
  void run();

  const std::uint16_t target_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  std::atomic<bool> is_cut_{false};
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace zookeeper_tests
