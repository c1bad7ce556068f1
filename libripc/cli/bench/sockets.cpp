// SPDX-License-Identifier: Apache-2.0
#include "bench/sockets.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "bench/payload.hpp"
#include "bench/ticks.hpp"

namespace cli::bench {
namespace {

constexpr std::uint64_t kPatience = 5'000'000'000;
constexpr std::size_t kPiece = std::size_t{256} << 10;  // of one read or write of the stream

libripc::Error system_error(const char* what) {
  return {RIPC_SYSTEM, std::string(what) + ": " + std::strerror(errno) + "."};
}

// Exactly `bytes`: one datagram, or as many reads of a stream as it takes.
libripc::Error receive_exactly(int fd, libripc::WritableBytes bytes, bool spin) {
  std::uint64_t started = 0;
  while (!bytes.empty()) {
    const ssize_t count = recv(fd, bytes.data(), bytes.size(), spin ? MSG_DONTWAIT : 0);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      continue;
    }
    if (count == 0) return {RIPC_PEER_DEAD, "The other side closed its socket."};
    const bool is_waiting = errno == EAGAIN || errno == EINTR;
    if (!is_waiting) return system_error("recv");
    if (started == 0) started = monotonic_now();
    if (monotonic_now() - started > kPatience) return {RIPC_TIMEOUT, "A packet was lost on the loopback interface."};
  }
  return {};
}

libripc::Error send_exactly(int fd, libripc::Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("send");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

libripc::Error measure_round_trips(int fd, std::uint64_t count, bool spin, std::vector<double>& samples, Tally& tally) {
  const TickClock clock;
  std::array<std::byte, kSocketPayload> out{};
  std::array<std::byte, kSocketPayload> in{};
  for (std::uint64_t round = 0; round < count; ++round) {
    fill_pattern(out, round);
    const std::uint64_t start = clock.now();
    if (const auto error = send_exactly(fd, out); !error.ok()) return error;
    if (const auto error = receive_exactly(fd, in, spin); !error.ok()) return error;
    samples.push_back(clock.nanoseconds(clock.now() - start));
    tally.check(check_pattern(in, round));
  }
  return {};
}

libripc::Error answer_round_trips(int fd, std::uint64_t count, bool spin) {
  std::array<std::byte, kSocketPayload> bytes{};
  for (std::uint64_t round = 0; round < count; ++round) {
    if (const auto error = receive_exactly(fd, bytes, spin); !error.ok()) return error;
    if (const auto error = send_exactly(fd, bytes); !error.ok()) return error;
  }
  return {};
}

sockaddr_in loopback() noexcept {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Binds to a free port of the loopback interface and says which.
bool bind_free(int fd, sockaddr_in& address) noexcept {
  address = loopback();
  socklen_t length = sizeof(address);
  return bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
         getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
}

bool connect_to(int fd, const sockaddr_in& address) noexcept {
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

bool set_timeouts(int fd) noexcept {
  timeval patience{};
  patience.tv_sec = static_cast<time_t>(kPatience / 1'000'000'000);
  return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0;
}

}  // namespace

SocketPair::~SocketPair() {
  for (const int fd : {datagram[0], datagram[1], stream[0], stream[1]})
    if (fd >= 0) ::close(fd);
}

libripc::Error SocketPair::open() {
  std::array<sockaddr_in, 2> addresses{};
  for (std::size_t end = 0; end < 2; ++end) {
    datagram[end] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (datagram[end] < 0 || !bind_free(datagram[end], addresses[end])) return system_error("UDP socket");
  }
  for (std::size_t end = 0; end < 2; ++end)
    if (!connect_to(datagram[end], addresses[1 - end]) || !set_timeouts(datagram[end]))
      return system_error("UDP connect");

  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  stream[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = listener >= 0 && stream[0] >= 0 && bind_free(listener, address) && listen(listener, 1) == 0 &&
                         connect_to(stream[0], address);
  if (connected) stream[1] = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  const int saved = errno;
  if (listener >= 0) ::close(listener);
  errno = saved;
  if (!connected || stream[1] < 0) return system_error("TCP connection over the loopback interface");
  for (const int fd : stream) {
    const int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 || !set_timeouts(fd))
      return system_error("setsockopt");
  }
  return {};
}

libripc::Error measure_datagrams(const SocketPair& sockets, std::uint64_t count, bool spin,
                                 std::vector<double>& samples, Tally& tally) {
  return measure_round_trips(sockets.datagram[0], count, spin, samples, tally);
}
libripc::Error answer_datagrams(const SocketPair& sockets, std::uint64_t count, bool spin) {
  return answer_round_trips(sockets.datagram[1], count, spin);
}
libripc::Error measure_stream(const SocketPair& sockets, std::uint64_t count, bool spin, std::vector<double>& samples,
                              Tally& tally) {
  return measure_round_trips(sockets.stream[0], count, spin, samples, tally);
}
libripc::Error answer_stream(const SocketPair& sockets, std::uint64_t count, bool spin) {
  return answer_round_trips(sockets.stream[1], count, spin);
}

libripc::Error send_stream_bytes(const SocketPair& sockets, std::uint64_t bytes) {
  std::vector<std::byte> piece(kPiece);
  fill_pattern(piece, 0);
  for (std::uint64_t sent = 0; sent < bytes; sent += kPiece) {
    const libripc::Bytes next = libripc::Bytes(piece).first(std::min<std::uint64_t>(kPiece, bytes - sent));
    if (const auto error = send_exactly(sockets.stream[1], next); !error.ok()) return error;
  }
  return {};
}

libripc::Result<double> receive_stream_bytes(const SocketPair& sockets, std::uint64_t bytes, Tally& tally) {
  std::vector<std::byte> piece(kPiece);
  std::uint64_t started = 0;
  for (std::uint64_t received = 0; received < bytes; received += kPiece) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, bytes - received));
    if (const auto error = receive_exactly(sockets.stream[0], libripc::WritableBytes(piece).first(size), false);
        !error.ok())
      return error;
    if (received == 0) {
      tally.check(check_pattern(piece, 0));
      started = monotonic_now();
    }
  }
  const std::uint64_t duration = std::max<std::uint64_t>(monotonic_now() - started, 1);
  tally.check(check_pattern(piece, 0));
  return static_cast<double>(bytes - std::min<std::uint64_t>(bytes, kPiece)) * 1e9 / static_cast<double>(duration);
}

}  // namespace cli::bench
