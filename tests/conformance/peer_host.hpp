// SPDX-License-Identifier: Apache-2.0
// Peers on another machine. There, this executable runs with --peer-host PORT and starts them; here,
// RIPC_TEST_PEER_HOST=ADDRESS:PORT makes every peer process of the suite run on that machine.
//
// Each request has its own TCP connection and is its first line:
//   lease              kept open by the suite; when it closes, the host ends with all its processes
//   start WORD...      answered by the process's id; from then on the connection is its input and output
//   signal ID NUMBER   answered by ok
//   wait ID            answered by the status of waitpid()
// Anyone who reaches the port can run programs, so it is only for networks that the test itself made.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace conformance {

class PeerHost {
 public:
  // Stays connected while the object lives. The test fails if no one answers within the limit.
  explicit PeerHost(const std::string& address);
  ~PeerHost();
  PeerHost(const PeerHost&) = delete;
  PeerHost& operator=(const PeerHost&) = delete;

  // Returns the socket to the new process; -1 and a failure if there is none.
  int start(const std::vector<std::string>& words, pid_t& process);
  void signal(pid_t process, int number);
  // Returns the status of waitpid(); -1: the process does not end within the limit.
  int wait(pid_t process);

 private:
  int connect() const;
  // The answer to one request.
  std::string call(const std::string& request) const;

  const std::string address_;
  int lease_ = -1;
};

// The peer host that the environment names; nullptr: peers are processes of this machine.
PeerHost* peer_host();

// Runs the host if the command line says so; false if it does not.
bool run_peer_host(int argc, char** argv, int* exit_status);

}  // namespace conformance
