// SPDX-License-Identifier: Apache-2.0
// Measures round trips of AUTO items between two hosts, next to those of bare TCP between the same processes.
// scripts/bench-hosts runs it on both ends of a cable.
//
//   bench_hosts_pair serve ADDRESS spin|block                    until its client ends; prints "ready" before that
//   bench_hosts_pair run ADDRESS spin|block SIZE [ROUND_TRIPS]   default: 2000
//
// ADDRESS is the server's, for TCP; the services find each other as the environment says. Blocks of 100 round trips
// alternate. Prints one JSON object: medians, in nanoseconds.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <ripc/ripc.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr const char* kName = "hosts-pair";
constexpr std::uint16_t kPort = 5311;
constexpr ripc::Nanoseconds kPatience = std::chrono::seconds(30);
constexpr int kBlock = 100;

[[noreturn]] void fail(const char* what, const char* why) {
  std::fprintf(stderr, "bench_hosts_pair: %s: %s\n", what, why);
  std::exit(1);
}

template <typename T>
T value(ripc::Result<T> result) {
  if (!result.ok()) fail("libripc", std::string(result.error().text()).c_str());
  return std::move(*result);
}

class TcpLink {
 public:
  TcpLink(const char* address, bool serves, bool spins) : spins_(spins) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(kPort);
    if (::inet_pton(AF_INET, address, &place.sin_addr) != 1) fail(address, "give an IPv4 address, such as 10.99.0.2");
    const auto* name = reinterpret_cast<const sockaddr*>(&place);
    const int on = 1;
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (serves) {
      if (::bind(socket_, name, sizeof place) != 0 || ::listen(socket_, 1) != 0) fail(address, std::strerror(errno));
      std::printf("ready\n");
      std::fflush(stdout);
      socket_ = ::accept(socket_, nullptr, nullptr);
      if (socket_ < 0) fail("accept", std::strerror(errno));
    } else if (::connect(socket_, name, sizeof place) != 0) {
      fail(address, std::strerror(errno));
    }
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  void send(std::span<const std::byte> bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (count < 0) fail("send", std::strerror(errno));
      done += static_cast<std::size_t>(count);
    }
  }
  // Returns false at the end of the connection.
  bool receive(std::span<std::byte> bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::recv(socket_, bytes.data() + done, bytes.size() - done, spins_ ? MSG_DONTWAIT : 0);
      if (count == 0 || (count < 0 && errno != EAGAIN)) return false;
      if (count > 0) done += static_cast<std::size_t>(count);
    }
    return true;
  }

 private:
  int socket_;
  bool spins_;
};

// What both ends have: a connection, and a service.
struct End {
  End(const char* address, bool serves, bool spins) : context(value(ripc::Context::create(context_options(spins)))) {
    ripc::ServiceOptions options;
    if (serves) options.name = kName;
    service = value(context.register_service(options));
    link.emplace(address, serves, spins);
  }

  static ripc::ContextOptions context_options(bool spins) {
    ripc::ContextOptions options;
    options.spin = spins ? std::chrono::milliseconds(5) : std::chrono::milliseconds(0);
    return options;
  }

  ripc::Context context;
  ripc::Service service;
  std::optional<TcpLink> link;
};

void serve(const char* address, bool spins) {
  End end(address, true, spins);
  std::uint64_t size = 0;
  if (!end.link->receive(std::as_writable_bytes(std::span(&size, 1))))
    fail("recv", "the client ended before it sent the size");
  std::vector<std::byte> bytes(size);
  for (;;) {
    for (int round = 0; round < kBlock; ++round) {
      if (!end.link->receive(bytes)) return;
      end.link->send(bytes);
    }
    for (int round = 0; round < kBlock; ++round) {
      const ripc::Message message = value(end.service.receive(kPatience));
      (void)value(end.service.reply(message, message.item(0).bytes()));
    }
  }
}

class Times {
 public:
  template <typename RoundTrip>
  void add_block(const RoundTrip& round_trip) {
    for (int round = 0; round < kBlock; ++round) {
      const auto start = std::chrono::steady_clock::now();
      round_trip();
      times_.push_back(std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
    }
  }
  long long median() {
    std::nth_element(times_.begin(), times_.begin() + static_cast<std::ptrdiff_t>(times_.size() / 2), times_.end());
    return times_[times_.size() / 2];
  }

 private:
  std::vector<long long> times_;
};

void run(const char* address, bool spins, std::uint64_t size, int round_trips) {
  End end(address, false, spins);
  const ripc::ServiceId server = value(end.context.wait_service(kName, kPatience)).id;
  end.link->send(std::as_bytes(std::span(&size, 1)));
  std::vector<std::byte> bytes(size);
  Times tcp, ours;
  for (int done = 0; done < round_trips; done += kBlock) {
    tcp.add_block([&] {
      end.link->send(bytes);
      if (!end.link->receive(bytes)) fail("recv", "the server ended");
    });
    ours.add_block([&] {
      (void)value(end.service.send(server, bytes));
      const ripc::Message answer = value(end.service.receive(kPatience));
      if (answer.item(0).bytes().size() != size) fail("receive", "an answer has the wrong size");
    });
  }
  std::printf("{\"tcp_ns\": %lld, \"ripc_ns\": %lld}\n", tcp.median(), ours.median());
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view role = count > 3 ? arguments[1] : "", wait = count > 3 ? arguments[3] : "";
  const std::uint64_t size = count > 4 ? std::strtoull(arguments[4], nullptr, 10) : 0;
  const int round_trips = count > 5 ? std::atoi(arguments[5]) : 2000;
  const bool runs = role == "run" && size > 0 && round_trips > 0;
  if ((!runs && (role != "serve" || count > 4)) || (wait != "spin" && wait != "block")) {
    std::fprintf(stderr, "usage: %s serve ADDRESS spin|block\n       %s run ADDRESS spin|block SIZE [ROUND_TRIPS]\n",
                 arguments[0], arguments[0]);
    return 2;
  }
  if (runs)
    run(arguments[2], wait == "spin", size, round_trips);
  else
    serve(arguments[2], wait == "spin");
  return 0;
}
