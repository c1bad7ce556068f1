// SPDX-License-Identifier: Apache-2.0
#include "peer.hpp"

#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "lines.hpp"
#include "peer_host.hpp"
#include "support/cluster_key.hpp"
#include "support/forbidden_calls.hpp"

namespace conformance {
namespace {

std::map<std::string, Role>& roles() {
  static std::map<std::string, Role> map;
  return map;
}

// In the peer process: becomes what the setup asks for.
bool change_identity(const PeerSetup& setup) {
  if (setup.other_namespaces) {
    // The namespaces already exist; this makes their mounts.
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    if (::mount("proc", "/proc", "proc", 0, nullptr) != 0) return false;
    if (::mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) != 0) return false;
  }
  if (setup.other_user) {
    if (!support::give_cluster_key(setup.user)) return false;
    if (::setgroups(0, nullptr) != 0) return false;
    if (!setup.keep_group && ::setgid(setup.user) != 0) return false;
    if (::setuid(setup.user) != 0) return false;
    // A process that was started by that user would have this from the start.
    if (::prctl(PR_SET_DUMPABLE, 1) != 0) return false;
  }
  if (setup.no_process_memory && !support::forbid({SYS_process_vm_readv, SYS_process_vm_writev}, EPERM)) return false;
  if (setup.no_membarrier && !support::forbid({SYS_membarrier}, EPERM)) return false;
  return ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
}

bool bind_runtime_directory(PeerSetup& setup) {
  if (setup.bind_directory.empty()) return true;
  if (::mount(setup.runtime_directory.c_str(), setup.bind_directory.c_str(), nullptr, MS_BIND, nullptr) != 0)
    return false;
  setup.runtime_directory = setup.bind_directory;
  return true;
}

}  // namespace

std::string why_no_other_user() { return ::geteuid() == 0 ? "" : "peers of another user can only be started by root"; }

std::string why_no_other_namespaces() {
  if (::geteuid() != 0) return "peers in other namespaces can only be started by root";
  const long child = ::syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) {
    PeerSetup setup;
    setup.other_namespaces = true;
    ::_exit(change_identity(setup) ? 0 : 1);
  }
  if (child < 0) return std::string("the kernel makes no namespaces for this process: ") + std::strerror(errno);
  int status = 0;
  ::waitpid(static_cast<pid_t>(child), &status, 0);
  return status == 0 ? "" : "this process may not mount in new namespaces";
}

// ---- The parent's side -------------------------------------------------------------------------------------------

pid_t start_process(std::vector<std::string> words, int socket, unsigned long namespaces, Announced announced) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const long child = ::syscall(SYS_clone, namespaces | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) {
    if (announced == Announced::yes) {
      // This uses no heap memory: another thread may have held the lock of the heap.
      char line[16];
      const int length = std::snprintf(line, sizeof line, "%d\n", ::getpid());
      [[maybe_unused]] const ssize_t written = ::write(socket, line, static_cast<std::size_t>(length));
    }
    ::dup2(socket, STDIN_FILENO);
    ::dup2(socket, STDOUT_FILENO);
    // Under a debugger, /proc/self/exe may be the debugger.
    const char* named = std::getenv("RIPC_TEST_PEER_PROGRAM");
    ::execv(named != nullptr ? named : "/proc/self/exe", arguments.data());
    ::_exit(127);
  }
  return static_cast<pid_t>(child);
}

Peer::Peer(const std::string& role, const PeerSetup& setup) {
  std::vector<std::string> words = {"conformance-peer",
                                    "--peer-role",
                                    role,
                                    "transport",
                                    setup.transport,
                                    "runtime_directory",
                                    setup.runtime_directory,
                                    "bind_directory",
                                    setup.bind_directory,
                                    "other_user",
                                    setup.other_user ? "1" : "0",
                                    "user",
                                    std::to_string(setup.user),
                                    "keep_group",
                                    setup.keep_group ? "1" : "0",
                                    "other_namespaces",
                                    setup.other_namespaces ? "1" : "0",
                                    "no_process_memory",
                                    setup.no_process_memory ? "1" : "0",
                                    "no_membarrier",
                                    setup.no_membarrier ? "1" : "0"};
  for (const auto& [name, value] : setup.settings) {
    words.push_back(name);
    words.push_back(value);
  }
  if (PeerHost* const host = peer_host()) {
    socket_ = host->start(words, pid_);
    is_far_ = true;
  } else {
    int sockets[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
      ADD_FAILURE() << "no sockets: " << std::strerror(errno);
      return;
    }
    pid_ = start_process(words, sockets[1], setup.other_namespaces ? CLONE_NEWPID | CLONE_NEWNS : 0, Announced::no);
    if (pid_ < 0) ADD_FAILURE() << "cannot start a peer process: " << std::strerror(errno);
    ::close(sockets[1]);
    socket_ = sockets[0];
  }
  EXPECT_EQ(answer(), "started") << "role " << role;
}

Peer::~Peer() {
  kill();
  if (socket_ >= 0) ::close(socket_);
}

void Peer::tell(const std::string& command) const { write_line(socket_, command); }

std::string Peer::answer() {
  std::string line;
  if (!read_line(socket_, pending_, now() + kLimit, line)) ADD_FAILURE() << "the peer process does not answer";
  return line;
}

std::string Peer::call(const std::string& command) {
  tell(command);
  return answer();
}

void Peer::signal(int number) const {
  if (pid_ <= 0) return;
  if (is_far_) {
    peer_host()->signal(pid_, number);
  } else {
    ::kill(pid_, number);
  }
}

void Peer::kill() {
  if (pid_ <= 0) return;
  signal(SIGKILL);
  if (is_far_) {
    (void)peer_host()->wait(pid_);
  } else {
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
}

int Peer::finish() {
  ::shutdown(socket_, SHUT_WR);
  int status = -1;
  const bool ended = is_far_ ? (status = peer_host()->wait(pid_)) != -1
                             : eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
  EXPECT_TRUE(ended) << "the peer process does not end";
  if (!ended) return -1;
  pid_ = -1;
  return status;
}

// ---- In the peer process -----------------------------------------------------------------------------------------

std::uint64_t PeerSide::number(const std::string& name, std::uint64_t otherwise) const {
  const auto found = setup_.settings.find(name);
  return found == setup_.settings.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 0);
}

ripc_context_options PeerSide::context_options() const {
  ripc_context_options options = initialized(ripc_context_options_init);
  options.transports = setup_.transport.c_str();
  options.runtime_directory = setup_.runtime_directory.c_str();
  options.spin = number("spin", options.spin);
  options.pool_limit = number("pool_limit", options.pool_limit);
  options.peer_policy = static_cast<std::uint32_t>(number("peer_policy", options.peer_policy));
  options.max_peers = static_cast<std::uint32_t>(number("max_peers", options.max_peers));
  options.resolve_timeout = number("resolve_timeout", options.resolve_timeout);
  return options;
}

bool PeerSide::next(std::string& command) { return read_line(STDIN_FILENO, pending_, UINT64_MAX, command); }
void PeerSide::reply(std::string_view text) { write_line(STDOUT_FILENO, text); }

RoleRegistration::RoleRegistration(const char* name, Role role) { roles()[name] = role; }

bool run_peer_role(int argc, char** argv, int* exit_status) {
  if (argc < 3 || std::string_view(argv[1]) != "--peer-role") return false;
  PeerSetup setup;
  for (int index = 3; index + 1 < argc; index += 2) {
    const std::string name = argv[index];
    const std::string value = argv[index + 1];
    if (name == "transport") {
      setup.transport = value;
    } else if (name == "runtime_directory") {
      setup.runtime_directory = value;
    } else if (name == "bind_directory") {
      setup.bind_directory = value;
    } else if (name == "other_user") {
      setup.other_user = value == "1";
    } else if (name == "user") {
      setup.user = static_cast<unsigned>(std::stoul(value));
    } else if (name == "keep_group") {
      setup.keep_group = value == "1";
    } else if (name == "other_namespaces") {
      setup.other_namespaces = value == "1";
    } else if (name == "no_process_memory") {
      setup.no_process_memory = value == "1";
    } else if (name == "no_membarrier") {
      setup.no_membarrier = value == "1";
    } else if (name.starts_with("RIPC_")) {
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    } else {
      setup.settings[name] = value;
    }
  }
  // On another host than the test's.
  std::error_code failed;
  std::filesystem::create_directories(setup.runtime_directory, failed);
  const auto role = roles().find(argv[2]);
  if (role == roles().end() || !change_identity(setup) || !bind_runtime_directory(setup)) {
    std::fprintf(stderr, "peer process: cannot become role %s: %s\n", argv[2], std::strerror(errno));
    *exit_status = 1;
    return true;
  }
  PeerSide parent(std::move(setup));
  parent.reply("started");
  *exit_status = role->second(parent);
  return true;
}

}  // namespace conformance
