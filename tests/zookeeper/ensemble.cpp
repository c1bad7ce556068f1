// SPDX-License-Identifier: Apache-2.0
#include "ensemble.hpp"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "resolver/zookeeper/ensemble_check.hpp"
#include "support/waiting.hpp"

namespace zookeeper_tests {
namespace {

constexpr const char* kServerJar = "/usr/share/java/zookeeper.jar";

using ripc::internal::UniqueFd;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

UniqueFd listen_anywhere(std::uint16_t& port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(fd.get(), 64), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  port = ntohs(address.sin_port);
  return fd;
}

std::string find_java() {
  const char* path = std::getenv("PATH");
  std::string_view left = path == nullptr ? "/usr/bin" : path;
  while (!left.empty()) {
    const std::size_t end = left.find(':');
    const std::string program = std::string(left.substr(0, end)) + "/java";
    if (::access(program.c_str(), X_OK) == 0) return program;
    left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
  }
  return {};
}

}  // namespace

std::string why_not() {
  if (find_java().empty()) return "there is no java: scripts/setup java installs it";
  if (!std::filesystem::exists(kServerJar)) return "ZooKeeper is not installed: scripts/setup zookeeper installs it";
  void* const client = ::dlopen("libzookeeper_st.so.2", RTLD_NOW | RTLD_NODELETE);
  return client == nullptr ? "libzookeeper-st2 is not installed: scripts/setup zookeeper installs it" : "";
}

Ensemble::Ensemble() {
  std::vector<UniqueFd> held;  // so that no port is taken twice
  for (Ports& ports : ports_) {
    held.push_back(listen_anywhere(ports.client));
    held.push_back(listen_anywhere(ports.peers));
    held.push_back(listen_anywhere(ports.election));
  }
  for (std::size_t i = 0; i < kServers; ++i) {
    const std::string data = directory_ / ("server" + std::to_string(i));
    std::filesystem::create_directory(data);
    std::ofstream(data + "/myid") << i + 1 << "\n";
    std::ofstream config(data + "/zoo.cfg");
    config << "tickTime=500\ninitLimit=20\nsyncLimit=10\ndataDir=" << data << "\nclientPort=" << ports_[i].client
           << "\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n"
           // Without the interval, a server that was alone for a while asks so rarely that an election takes half a
           // minute.
           << "forceSync=no\nfastleader.maxNotificationInterval=500\n";
    for (std::size_t j = 0; j < kServers; ++j)
      config << "server." << j + 1 << "=127.0.0.1:" << ports_[j].peers << ":" << ports_[j].election << "\n";
  }
  held.clear();
  heal();
}

Ensemble::~Ensemble() {
  for (std::size_t i = 0; i < kServers; ++i) kill(i);
}

std::string Ensemble::text(const std::string& folder) const {
  std::string text;
  for (const Ports& ports : ports_)
    text += (text.empty() ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(ports.client);
  return text + folder;
}

std::size_t Ensemble::leader() const {
  const auto answers =
      ripc::internal::resolver::ask_servers(*ripc::internal::resolver::parse_zookeeper_options(text("")));
  for (std::size_t i = 0; i < kServers; ++i) {
    if (answers[i].mode == "leader") return i;
  }
  return kServers;
}

std::size_t Ensemble::serving() const {
  std::size_t count = 0;
  for (const auto& answer :
       ripc::internal::resolver::ask_servers(*ripc::internal::resolver::parse_zookeeper_options(text(""))))
    count += answer.mode.empty() ? 0u : 1u;
  return count;
}

void Ensemble::start(std::size_t server) {
  const std::string java = find_java();
  const std::string config = directory_ / ("server" + std::to_string(server) + "/zoo.cfg");
  const pid_t parent = ::getpid();
  pids_[server] = ::fork();
  if (pids_[server] != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  ::dup2(null, STDERR_FILENO);
  ::execl(java.c_str(), "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", kServerJar,
          "org.apache.zookeeper.server.quorum.QuorumPeerMain", config.c_str(), nullptr);
  ::_exit(1);
}

void Ensemble::kill(std::size_t server) {
  const pid_t pid = std::exchange(pids_[server], 0);
  if (pid <= 0) return;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

void Ensemble::lose_disks() {
  for (std::size_t i = 0; i < kServers; ++i) {
    kill(i);
    std::filesystem::remove_all(directory_ / ("server" + std::to_string(i) + "/version-2"));
  }
}

void Ensemble::pause(std::size_t server) { ::kill(pids_[server], SIGSTOP); }

void Ensemble::go_on(std::size_t server) { ::kill(pids_[server], SIGCONT); }

void Ensemble::heal() {
  for (std::size_t i = 0; i < kServers; ++i) {
    if (pids_[i] == 0) start(i);
  }
  EXPECT_TRUE(support::eventually([&] { return serving() == kServers; }, 60 * support::kSecond));
}

// ---- Relay ---------------------------------------------------------------------------------------------------

Relay::Relay(std::uint16_t target) : target_(target) {
  listener_ = listen_anywhere(port_).release();
  thread_ = std::thread([this] { run(); });
}

Relay::~Relay() {
  is_over_ = true;
  thread_.join();
  ::close(listener_);
}

void Relay::run() {
  struct Pair {
    UniqueFd client;
    UniqueFd server;
  };
  std::vector<Pair> pairs;
  const auto pass_on = [](int from, int to) {
    char buffer[65536];
    const ssize_t size = ::recv(from, buffer, sizeof buffer, 0);
    return size > 0 && ::send(to, buffer, static_cast<std::size_t>(size), MSG_NOSIGNAL) == size;
  };
  while (!is_over_) {
    if (is_cut_) pairs.clear();
    std::vector<pollfd> descriptors{{listener_, POLLIN, 0}};
    for (const Pair& pair : pairs) {
      descriptors.push_back({pair.client.get(), POLLIN, 0});
      descriptors.push_back({pair.server.get(), POLLIN, 0});
    }
    constexpr int kLook = 5;  // milliseconds between two looks at the flags
    if (::poll(descriptors.data(), descriptors.size(), kLook) <= 0) continue;
    for (std::size_t i = pairs.size(); i-- > 0;) {
      const bool is_fine =
          (descriptors[1 + 2 * i].revents == 0 || pass_on(pairs[i].client.get(), pairs[i].server.get())) &&
          (descriptors[2 + 2 * i].revents == 0 || pass_on(pairs[i].server.get(), pairs[i].client.get()));
      if (!is_fine) pairs.erase(pairs.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (descriptors[0].revents == 0) continue;
    Pair pair{UniqueFd(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)),
              UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
    const sockaddr_in address = loopback(target_);
    if (!is_cut_ && ::connect(pair.server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      pairs.push_back(std::move(pair));
  }
}

}  // namespace zookeeper_tests
