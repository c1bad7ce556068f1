// SPDX-License-Identifier: Apache-2.0
// The Ethernet switch of the RDMA lab: a program that joins guests over socket pairs and breaks the links between them
// on demand.
//
//   lab_switch DESCRIPTOR...     one SOCK_SEQPACKET socket for each port, one frame in each packet; ports count from 1
//
// Commands come on standard input, one a line; each is answered on standard output when it is in force:
//   loss FROM TO PERCENT    PERCENT of the frames from port FROM to port TO are lost; 100 cuts this direction. "ok"
//   block PORT              UDP to this port is lost; the rest gets through. "ok"
//   longest BYTES           frames that are longer are lost. "ok"
//   heal                    nothing is lost any more. "ok"
//   count                   "forwarded N lost N refused N": frames; refused are those for which a port had no room
// Anything else is answered with "error". The end of standard input ends the program.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr std::size_t kAddressSize = 6;
constexpr std::size_t kHeaderSize = 14;         // receiver, sender, type
constexpr std::size_t kLargestFrame = 1 << 17;  // a guest may hand over segments that its device would have split
constexpr std::size_t kMostAddresses = 4096;
constexpr int kFramesInTurn = 64;  // from one port, before the other ports have their turn
constexpr int kSocketBuffer = 8 << 20;

using Frame = std::array<unsigned char, kLargestFrame>;

class Switch {
 public:
  explicit Switch(std::vector<int> ports)
      : ports_(std::move(ports)), open_(ports_.size(), true), loss_(ports_.size() * ports_.size(), 0) {}

  const std::vector<int>& ports() const { return ports_; }
  bool is_open(std::size_t port) const { return open_[port]; }

  // Forwards the frames that wait at the port, until its turn ends.
  void serve(std::size_t port) {
    for (int count = 0; count < kFramesInTurn; ++count) {
      const ssize_t size = ::recv(ports_[port], frame_.data(), frame_.size(), MSG_DONTWAIT);
      if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (size <= 0) {
        open_[port] = false;  // the guest is gone
        return;
      }
      if (static_cast<std::size_t>(size) >= kHeaderSize) forward(port, static_cast<std::size_t>(size));
    }
  }

  std::string obey(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "loss") {
      std::size_t from = 0;
      std::size_t to = 0;
      unsigned percent = 0;
      words >> from >> to >> percent;
      const std::size_t count = ports_.size();
      if (!words || from < 1 || from > count || to < 1 || to > count || percent > 100) return "error";
      loss(from - 1, to - 1) = percent;
      return "ok";
    }
    if (word == "block") {
      unsigned port = 0;
      words >> port;
      if (!words || port < 1 || port > 65535) return "error";
      blocked_ = port;
      return "ok";
    }
    if (word == "longest") {
      std::size_t bytes = 0;
      words >> bytes;
      if (!words || bytes < kHeaderSize) return "error";
      longest_ = bytes;
      return "ok";
    }
    if (word == "heal") {
      loss_.assign(loss_.size(), 0);
      blocked_ = 0;
      longest_ = kLargestFrame;
      return "ok";
    }
    if (word == "count") {
      return "forwarded " + std::to_string(forwarded_) + " lost " + std::to_string(lost_) + " refused " +
             std::to_string(refused_);
    }
    return "error";
  }

 private:
  unsigned& loss(std::size_t from, std::size_t to) { return loss_[from * ports_.size() + to]; }

  std::uint64_t address_at(std::size_t offset) const {
    std::uint64_t address = 0;
    std::memcpy(&address, frame_.data() + offset, kAddressSize);
    return address;
  }

  // Whether the frame is UDP over IPv4 to the blocked port.
  bool is_blocked(std::size_t size) const {
    constexpr std::size_t kSmallestIp = 20;
    constexpr unsigned char kUdp = 17;
    if (blocked_ == 0 || size < kHeaderSize + kSmallestIp + 4) return false;
    const unsigned char* const ip = frame_.data() + kHeaderSize;
    if (frame_[12] != 0x08 || frame_[13] != 0 || ip[9] != kUdp) return false;
    const std::size_t ip_size = (ip[0] & 0x0fU) * std::size_t{4};
    if (size < kHeaderSize + ip_size + 4) return false;
    return ((unsigned{ip[ip_size + 2]} << 8) | ip[ip_size + 3]) == blocked_;
  }

  void forward(std::size_t from, std::size_t size) {
    const std::uint64_t sender = address_at(kAddressSize);
    if (learned_.size() < kMostAddresses || learned_.contains(sender)) learned_[sender] = from;
    const bool to_group = (frame_[0] & 1) != 0;
    if (const auto known = learned_.find(address_at(0)); !to_group && known != learned_.end()) {
      if (known->second != from) pass(from, known->second, size);
      return;
    }
    for (std::size_t to = 0; to < ports_.size(); ++to) {
      if (to != from) pass(from, to, size);
    }
  }

  void pass(std::size_t from, std::size_t to, std::size_t size) {
    const unsigned percent = loss(from, to);
    if (is_blocked(size) || size > longest_ || (percent > 0 && percent_(random_) <= percent)) {
      ++lost_;
    } else if (!open_[to] || ::send(ports_[to], frame_.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      ++refused_;
    } else {
      ++forwarded_;
    }
  }

  std::vector<int> ports_;
  std::vector<bool> open_;
  std::vector<unsigned> loss_;  // percent, [from][to]
  std::unordered_map<std::uint64_t, std::size_t> learned_;
  std::mt19937 random_{1};  // NOLINT(cert-msc51-cpp): the same losses in each run
  std::uniform_int_distribution<unsigned> percent_{1, 100};
  unsigned blocked_ = 0;  // 0: no port
  std::size_t longest_ = kLargestFrame;
  std::uint64_t forwarded_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t refused_ = 0;
  Frame frame_{};
};

// Reads what has come on standard input and obeys each whole line; false at the end of the input.
bool read_commands(Switch& network, std::string& pending) {
  std::array<char, 4096> bytes{};
  const ssize_t size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (size < 0 && errno == EINTR) return true;
  if (size <= 0) return false;
  pending.append(bytes.data(), static_cast<std::size_t>(size));
  for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
    const std::string answer = network.obey(pending.substr(0, end)) + "\n";
    pending.erase(0, end + 1);
    std::fputs(answer.c_str(), stdout);
    std::fflush(stdout);
  }
  return true;
}

int run(Switch& network) {
  std::string pending;
  std::vector<pollfd> waited;
  for (;;) {
    waited.assign(1, {STDIN_FILENO, POLLIN, 0});
    for (std::size_t port = 0; port < network.ports().size(); ++port) {
      waited.push_back({network.is_open(port) ? network.ports()[port] : -1, POLLIN, 0});
    }
    if (::poll(waited.data(), waited.size(), -1) < 0 && errno != EINTR) {
      std::perror("lab_switch: poll");
      return 1;
    }
    if (waited[0].revents != 0 && !read_commands(network, pending)) return 0;
    for (std::size_t port = 0; port < network.ports().size(); ++port) {
      if (waited[port + 1].revents != 0) network.serve(port);
    }
  }
}

std::optional<int> descriptor(const char* text) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value <= STDERR_FILENO || ::fcntl(static_cast<int>(value), F_GETFD) < 0) return {};
  return static_cast<int>(value);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> ports;
  for (int index = 1; index < argc; ++index) {
    const std::optional<int> port = descriptor(argv[index]);
    if (!port) {
      std::fprintf(stderr, "lab_switch: '%s' is no open descriptor\n", argv[index]);
      return 2;
    }
    // A buffer above the default needs rights; without them bursts are lost earlier.
    if (::setsockopt(*port, SOL_SOCKET, SO_SNDBUFFORCE, &kSocketBuffer, sizeof kSocketBuffer) != 0) {
      ::setsockopt(*port, SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer);
    }
    ports.push_back(*port);
  }
  if (ports.size() < 2) {
    std::fputs("usage: lab_switch DESCRIPTOR DESCRIPTOR...\n", stderr);
    return 2;
  }
  ::signal(SIGPIPE, SIG_IGN);
  Switch network(std::move(ports));
  return run(network);
}
