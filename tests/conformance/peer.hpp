// SPDX-License-Identifier: Apache-2.0
// Peers in other processes: this executable, started again with --peer-role. A socket carries lines of text both ways.
//
// The general role is the puppet (puppet.cpp): it does what it is told, one command per line, one answer per line.
//
// With $RIPC_TEST_PEER_HOST the peers are processes of another machine (peer_host.hpp), and the tests check what holds
// between machines. Tests that inspect their peer by means of one machine are skipped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ripc/ripc.h"

namespace conformance {

// How a peer process differs from this one.
struct PeerSetup {
  std::string transport;
  std::string runtime_directory;
  bool other_user = false;  // `user`, with the group of the same number (needs root)
  unsigned user = 65534;
  bool keep_group = false;        // with other_user: this process's group instead
  bool other_namespaces = false;  // PID and mount namespaces of its own, with its own /dev/shm and /proc (needs root)
  std::string bind_directory;     // with other_namespaces: where it sees the runtime directory; empty: the same path
  // These system calls fail, as they may under a seccomp profile: process_vm_readv(2) and process_vm_writev(2),
  // membarrier(2).
  bool no_process_memory = false;
  bool no_membarrier = false;
  // For the role: peer_policy, spin, pool_limit, takeover ...; RIPC_...: a variable of its environment.
  std::map<std::string, std::string> settings;
};

// The parent's side. The destructor kills the process if it still runs.
class Peer {
 public:
  Peer(const std::string& role, const PeerSetup& setup);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  pid_t pid() const { return pid_; }
  // Sends one command and returns the answer; "" and a failure if there is none within 10 s.
  std::string call(const std::string& command);
  void tell(const std::string& command) const;
  std::string answer();

  void signal(int number) const;
  // SIGKILL, and waits until the process is gone.
  void kill();
  // Lets the process end by itself, as no more commands will come. Returns the status of waitpid(); -1 and a failure if
  // the process does not end.
  int finish();

 private:
  pid_t pid_ = -1;
  bool is_far_ = false;  // a process of the peer host
  int socket_ = -1;
  std::string pending_;
};

// In the parent: starts this executable with these words in new namespaces (CLONE_NEWPID ...), with the socket as its
// input and output. Announced: the process writes its ID first. Returns -1 and sets errno if there is no new process.
enum class Announced : bool { no, yes };
pid_t start_process(std::vector<std::string> words, int socket, unsigned long namespaces, Announced announced);

// Why peers of another user, or in other namespaces, cannot be started here; "" if they can.
std::string why_no_other_user();
std::string why_no_other_namespaces();

// ---- In the peer process -----------------------------------------------------------------------------------------

class PeerSide {
 public:
  explicit PeerSide(PeerSetup setup) : setup_(std::move(setup)) {}

  const PeerSetup& setup() const { return setup_; }
  // A number from the settings.
  std::uint64_t number(const std::string& name, std::uint64_t otherwise) const;
  // The options that the setup asks for; its strings live as long as this.
  ripc_context_options context_options() const;

  // Gets the next command; returns false when there will be none.
  bool next(std::string& command);
  void reply(std::string_view text);

 private:
  PeerSetup setup_;
  std::string pending_;
};

using Role = int (*)(PeerSide& parent);
struct RoleRegistration {
  RoleRegistration(const char* name, Role role);
};
#define PEER_ROLE(name)                                                                 \
  static int name##_role(::conformance::PeerSide& parent);                              \
  static const ::conformance::RoleRegistration name##_registration(#name, name##_role); \
  static int name##_role(::conformance::PeerSide& parent)

// Runs the role that the command line names and sets *exit_status; false if it names none.
bool run_peer_role(int argc, char** argv, int* exit_status);

}  // namespace conformance
