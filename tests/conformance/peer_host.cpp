// SPDX-License-Identifier: Apache-2.0
#include "peer_host.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "harness.hpp"
#include "lines.hpp"
#include "peer.hpp"

namespace conformance {
namespace {

constexpr char kBetweenWords = '\x1f';

sockaddr_in parse(const std::string& address) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  const std::size_t colon = address.rfind(':');
  result.sin_addr.s_addr = ::inet_addr(address.substr(0, colon).c_str());
  result.sin_port = ::htons(static_cast<std::uint16_t>(std::atoi(address.c_str() + colon + 1)));
  return result;
}

}  // namespace

// ---- The suite's side --------------------------------------------------------------------------------------------

PeerHost::PeerHost(const std::string& address) : address_(address) {
  EXPECT_TRUE(eventually([&] { return (lease_ = connect()) >= 0; })) << "no peer host at " << address;
  write_line(lease_, "lease");
}

PeerHost::~PeerHost() {
  if (lease_ >= 0) ::close(lease_);
}

int PeerHost::connect() const {
  const sockaddr_in to = parse(address_);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    const int on = 1;
    (void)::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return socket;
  }
  ::close(socket);
  return -1;
}

std::string PeerHost::call(const std::string& request) const {
  const int socket = connect();
  std::string pending;
  std::string line;
  write_line(socket, request);
  if (!read_line(socket, pending, now() + kLimit, line)) line.clear();
  ::close(socket);
  return line;
}

int PeerHost::start(const std::vector<std::string>& words, pid_t& process) {
  const int socket = connect();
  std::string request = "start";
  for (const std::string& word : words) request += kBetweenWords + word;
  write_line(socket, request);
  // Reads no byte beyond this line: what follows belongs to the process.
  std::string number;
  for (char byte = 0; ::read(socket, &byte, 1) == 1 && byte != '\n';) number += byte;
  process = static_cast<pid_t>(std::atoi(number.c_str()));
  if (process > 0) return socket;
  ADD_FAILURE() << "the peer host starts no process";
  ::close(socket);
  return -1;
}

void PeerHost::signal(pid_t process, int number) {
  EXPECT_EQ(call("signal " + std::to_string(process) + " " + std::to_string(number)), "ok");
}

int PeerHost::wait(pid_t process) {
  const std::string answer = call("wait " + std::to_string(process));
  return answer.empty() ? -1 : std::atoi(answer.c_str());
}

PeerHost* peer_host() {
  static const std::unique_ptr<PeerHost> host = [] {
    const char* const address = std::getenv("RIPC_TEST_PEER_HOST");
    return address == nullptr ? nullptr : std::make_unique<PeerHost>(address);
  }();
  return host.get();
}

// ---- The host ----------------------------------------------------------------------------------------------------

namespace {

// Runs in the main thread: a process that it starts ends with the thread that started it.
void start(const std::string& request, int socket) {
  std::vector<std::string> words;
  std::istringstream text(request);
  for (std::string word; std::getline(text, word, kBetweenWords);) words.push_back(word);
  words.erase(words.begin());
  (void)start_process(std::move(words), socket, 0, Announced::yes);
}

void await_end(pid_t process, int socket) {
  int status = -1;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  write_line(socket, std::to_string(status));
  ::close(socket);
}

int serve(int port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in at = parse("0.0.0.0:" + std::to_string(port));
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 || ::listen(listener, 16) != 0) {
    std::perror("peer host: cannot listen");
    return 1;
  }
  for (;;) {
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    std::string pending;
    std::string request;
    if (!read_line(socket, pending, now() + kLimit, request)) request.clear();
    std::istringstream words(request);
    std::string verb;
    pid_t process = 0;
    int number = 0;
    words >> verb >> process >> number;
    if (verb == "lease") {
      // The processes end with their parent.
      std::thread([socket] {
        std::string nothing;
        std::string line;
        while (read_line(socket, nothing, UINT64_MAX, line)) {
        }
        std::_Exit(0);
      }).detach();
      continue;
    }
    if (verb == "wait") {
      std::thread(await_end, process, socket).detach();
      continue;
    }
    if (verb == "signal") write_line(socket, ::kill(process, number) == 0 ? "ok" : "no such process");
    if (request.starts_with("start")) start(request, socket);
    ::close(socket);
  }
}

}  // namespace

bool run_peer_host(int argc, char** argv, int* exit_status) {
  if (argc != 3 || std::string_view(argv[1]) != "--peer-host") return false;
  *exit_status = serve(std::atoi(argv[2]));
  return true;
}

}  // namespace conformance
