// SPDX-License-Identifier: Apache-2.0
#include "bench/sockets.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "bench/pair.hpp"
#include "bench/payload.hpp"
#include "bench/ticks.hpp"

namespace cli::bench {
namespace {

constexpr std::uint64_t kPacketPatience = 5'000'000'000;
constexpr std::size_t kPiece = std::size_t{256} << 10;  // of one read or write of the stream
constexpr std::size_t kDatagrams = 64;                  // datagrams of one call

// Receives exactly `bytes`: one datagram, or as many reads of a stream as necessary.
ripc::Error receive_exactly(int fd, ripc::WritableBytes bytes, bool spin) {
  std::uint64_t started = 0;
  while (!bytes.empty()) {
    const ssize_t count = recv(fd, bytes.data(), std::min(bytes.size(), kPiece), spin ? MSG_DONTWAIT : 0);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      continue;
    }
    if (count == 0) return {RIPC_PEER_DEAD, "The other side closed its socket."};
    const bool is_waiting = errno == EAGAIN || errno == EINTR;
    if (!is_waiting) return system_error("recv");
    if (started == 0) started = monotonic_now();
    if (monotonic_now() - started > kPacketPatience)
      return {RIPC_TIMEOUT, "A packet was lost on the loopback interface."};
  }
  return {};
}

ripc::Error send_exactly(int fd, ripc::Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(fd, bytes.data(), std::min(bytes.size(), kPiece), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("send");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

// Binds to a free port of the loopback interface and says which.
bool bind_free(int fd, sockaddr_in& address) noexcept {
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  return bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
         getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
}

bool connect_to(int fd, const sockaddr_in& address) noexcept {
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

bool set_timeouts(int fd) noexcept {
  timeval patience{};
  patience.tv_sec = static_cast<time_t>(kPacketPatience / 1'000'000'000);
  return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0;
}

}  // namespace

SocketPair::~SocketPair() {
  for (const int fd : {datagram[0], datagram[1], stream[0], stream[1]})
    if (fd >= 0) ::close(fd);
}

ripc::Error SocketPair::open() {
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

ripc::Error measure_round_trips(const std::array<int, 2>& sockets, std::size_t size, std::uint64_t count, bool spin,
                                std::vector<double>& samples, Tally& tally) {
  const TickClock clock;
  std::vector<std::byte> out(size);
  std::vector<std::byte> in(size);
  for (std::uint64_t round = 0; round < count; ++round) {
    fill_pattern(out, round);
    const std::uint64_t start = clock.now();
    if (const auto error = send_exactly(sockets[0], out); !error.ok()) return error;
    if (const auto error = receive_exactly(sockets[0], in, spin); !error.ok()) return error;
    samples.push_back(clock.nanoseconds(clock.now() - start));
    tally.check(check_pattern(in, round));
  }
  return {};
}

ripc::Error answer_round_trips(const std::array<int, 2>& sockets, std::size_t size, std::uint64_t count, bool spin) {
  std::vector<std::byte> bytes(size);
  for (std::uint64_t round = 0; round < count; ++round) {
    if (const auto error = receive_exactly(sockets[1], bytes, spin); !error.ok()) return error;
    if (const auto error = send_exactly(sockets[1], bytes); !error.ok()) return error;
  }
  return {};
}

ripc::Error send_stream(const SocketPair& sockets, ripc::Bytes bytes) { return send_exactly(sockets.stream[1], bytes); }

ripc::Error receive_stream(const SocketPair& sockets, ripc::WritableBytes bytes) {
  return receive_exactly(sockets.stream[0], bytes, false);
}

// ---- Datagrams one way ---------------------------------------------------------------------------------------

namespace {

// The memory of one batch, and the headers that name it.
struct Batch {
  explicit Batch(std::size_t size) : memory(kDatagrams * size) {
    for (std::size_t index = 0; index < kDatagrams; ++index) {
      pieces[index] = {memory.data() + index * size, size};
      headers[index].msg_hdr.msg_iov = &pieces[index];
      headers[index].msg_hdr.msg_iovlen = 1;
    }
  }
  ripc::WritableBytes payload(std::size_t index) const noexcept {
    return {static_cast<std::byte*>(pieces[index].iov_base), pieces[index].iov_len};
  }
  std::vector<std::byte> memory;
  std::array<iovec, kDatagrams> pieces{};
  std::array<mmsghdr, kDatagrams> headers{};
};

}  // namespace

ripc::Error send_datagrams(const SocketPair& sockets, std::size_t size, std::uint64_t count) {
  Batch batch(size);
  for (std::uint64_t sent = 0; sent < count;) {
    const auto wanted = static_cast<unsigned>(std::min<std::uint64_t>(kDatagrams, count - sent));
    for (unsigned index = 0; index < wanted; ++index) fill_pattern(batch.payload(index), sent + index);
    for (unsigned done = 0; done < wanted;) {
      const int made = sendmmsg(sockets.datagram[1], batch.headers.data() + done, wanted - done, MSG_NOSIGNAL);
      if (made < 0 && errno != EINTR) return system_error("sendmmsg");
      if (made > 0) done += static_cast<unsigned>(made);
    }
    sent += wanted;
  }
  return {};
}

ripc::Result<Arrived> receive_datagrams(const SocketPair& sockets, std::size_t size,
                                        const std::function<bool()>& is_over, Tally& tally) {
  Batch batch(size);
  Arrived arrived;
  std::uint64_t started = 0;
  while (true) {
    const bool last = is_over();
    int count = 0;
    while ((count = recvmmsg(sockets.datagram[0], batch.headers.data(), kDatagrams, MSG_DONTWAIT, nullptr)) > 0) {
      const std::uint64_t now = monotonic_now();
      if (started == 0) {
        started = now;
      } else {
        arrived.messages += static_cast<std::uint64_t>(count);
        arrived.nanoseconds = now - started;
      }
      for (int index = 0; index < count; ++index) {
        const ripc::Bytes payload = batch.payload(static_cast<std::size_t>(index));
        tally.check(check_pattern(payload, sequence_of(payload)));
      }
    }
    if (count < 0 && errno != EAGAIN && errno != EINTR) return system_error("recvmmsg");
    if (last) return arrived;
  }
}

}  // namespace cli::bench
