// SPDX-License-Identifier: Apache-2.0
#include "remote/link/link_socket.hpp"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/ip.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace ripc::internal::remote {

namespace {

// The most ranges that the encoder makes: the head, and each item's bytes.
constexpr std::size_t kMaxRanges = 2 * wire::kMaxPacketItems + 2;
constexpr std::size_t kUdpHeader = 8;
constexpr std::size_t kIpv4Header = 20;
constexpr std::size_t kIpv6Header = 40;
// Every path carries this; used if the system does not tell the MTU.
constexpr int kMinMtu = 576;

ripc_status status_of(int error) noexcept {
  switch (error) {
    case EMSGSIZE:
      return RIPC_TOO_LARGE;
    case ECONNREFUSED:
      return RIPC_PEER_DEAD;
    default:
      // EAGAIN, ENOBUFS; and a network that is down, which may come back: the session finds out.
      return RIPC_AGAIN;
  }
}

}  // namespace

Result<LinkSocket> LinkSocket::open(const Endpoint& local, PortRange range) {
  LinkSocket link;
  if (Status status = open_socket(local.family(), SOCK_DGRAM).move_to(link.socket_); !status.ok()) return status;
  if (local.family() == AF_INET) {
    const int discover = IP_PMTUDISC_DO;
    (void)setsockopt(link.fd(), IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover);
  } else {
    const int discover = IPV6_PMTUDISC_DO;
    (void)setsockopt(link.fd(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, &discover, sizeof discover);
  }
  if (Status status = bind_in_range(link.fd(), local, range); !status.ok()) return status;
  return link;
}

Status LinkSocket::connect(const Endpoint& remote) const {
  if (::connect(fd(), remote.address(), remote.size()) == 0) return {};
  return system_error(errno, "connect", "check the route to " + remote.ip());
}

std::size_t LinkSocket::set_receive_buffer(std::size_t bytes) const noexcept {
  // The system doubles the requested size, and includes its own needs.
  const int half = static_cast<int>(std::min<std::size_t>(bytes / 2, 0x3fffffff));
  (void)setsockopt(fd(), SOL_SOCKET, SO_RCVBUF, &half, sizeof half);
  int given = 0;
  socklen_t size = sizeof given;
  (void)getsockopt(fd(), SOL_SOCKET, SO_RCVBUF, &given, &size);
  return static_cast<std::size_t>(std::max(given, 0));
}

std::uint32_t LinkSocket::dropped() const noexcept {
  std::array<std::uint32_t, SK_MEMINFO_VARS> numbers{};
  socklen_t size = sizeof numbers;
  (void)getsockopt(fd(), SOL_SOCKET, SO_MEMINFO, numbers.data(), &size);
  return numbers[SK_MEMINFO_DROPS];
}

std::size_t LinkSocket::packet_limit() const noexcept {
  const bool v4 = Endpoint::local_of(fd()).family() == AF_INET;
  int mtu = 0;
  socklen_t size = sizeof mtu;
  if (getsockopt(fd(), v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &size) != 0) mtu = kMinMtu;
  const std::size_t headers = (v4 ? kIpv4Header : kIpv6Header) + kUdpHeader + wire::datagram::kHeaderSize;
  return std::min(static_cast<std::size_t>(std::max(mtu, kMinMtu)) - headers, kMaxPacket) - overhead();
}

ripc_status LinkSocket::send(const wire::datagram::Header& header, spi::Gather packet, Nanoseconds now) const noexcept {
  wire::datagram::HeaderBytes head;
  wire::datagram::encode(header, head);
  if (seal_) return send_sealed(fd(), *seal_, head, packet, now);
  std::array<iovec, kMaxRanges + 1> parts;  // not initialised: every message takes this path
  if (packet.size() > kMaxRanges) return RIPC_TOO_LARGE;
  parts[0] = {head.data(), head.size()};
  std::size_t count = 1;
  for (const spi::Bytes range : packet) parts[count++] = {const_cast<std::byte*>(range.data()), range.size()};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  for (;;) {
    if (sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return RIPC_OK;
    if (errno != EINTR) return status_of(errno);
  }
}

ripc_status LinkSocket::send_sealed(int fd, Seal& seal, const wire::datagram::HeaderBytes& head, spi::Gather packet,
                                    Nanoseconds now) noexcept {
  const std::lock_guard lock(seal.mutex);
  std::size_t size = head.size();
  for (const spi::Bytes range : packet) size += range.size();
  if (size + security::kSealedOverhead > kMaxDatagram) return RIPC_TOO_LARGE;
  std::byte* to = seal.buffer.get() + security::kSealedHead;
  std::memcpy(to, head.data(), head.size());
  to += head.size();
  for (const spi::Bytes range : packet) {
    if (range.empty()) continue;
    std::memcpy(to, range.data(), range.size());
    to += range.size();
  }
  // The numbers are used up: the link is as useless as one whose other end is gone.
  if (!seal.sealer.seal(seal.buffer.get(), size, now != 0 ? now : monotonic_now())) return RIPC_PEER_DEAD;
  size += security::kSealedOverhead;
  for (;;) {
    if (::send(fd, seal.buffer.get(), size, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return RIPC_OK;
    if (errno != EINTR) return status_of(errno);
  }
}

void LinkSocket::protect(security::Protection protection, const security::Secret& sends,
                         const security::Secret& receives, CountersPointer counters) {
  seal_ = std::make_unique<Seal>(protection, sends, receives, std::move(counters));
}

security::DatagramOpener::Verdict LinkSocket::open_sealed(std::span<std::byte> datagram,
                                                          spi::Bytes& text) const noexcept {
  using Verdict = security::DatagramOpener::Verdict;
  if (!seal_) {
    text = datagram;
    return Verdict::fresh;
  }
  std::span<std::byte> opened;
  const Verdict verdict = seal_->opener.open(datagram, opened);
  text = opened;
  if (verdict == Verdict::forged) security::Counters::add(seal_->counters->packets_forged);
  if (verdict == Verdict::replayed) security::Counters::add(seal_->counters->packets_replayed);
  return verdict;
}

ripc_status LinkSocket::receive(wire::datagram::Header& header) const noexcept {
  std::array<std::byte, wire::datagram::kHeaderSize + security::kSealedOverhead + 1> bytes;
  for (;;) {
    const ssize_t size = recv(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size >= 0) {
      spi::Bytes text;
      if (open_sealed(std::span(bytes).first(static_cast<std::size_t>(size)), text) !=
          security::DatagramOpener::Verdict::fresh)
        return RIPC_CORRUPT;
      return wire::datagram::decode(text, header);
    }
    if (errno == EAGAIN) return RIPC_EMPTY;
    if (errno == ECONNREFUSED) return RIPC_PEER_DEAD;
    if (errno != EINTR) return RIPC_CORRUPT;
  }
}

}  // namespace ripc::internal::remote
