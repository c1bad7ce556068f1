// SPDX-License-Identifier: Apache-2.0
#include "resolver/multicast/udp_network.hpp"

#include <linux/filter.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/event_signal.hpp"
#include "base/interface_watch.hpp"

namespace ripc::internal::resolver {
namespace {

// Room for the replies of many contexts that are asked at once; the kernel gives what net.core.rmem_max allows.
constexpr int kReceiveBuffer = 1 << 20;
// How many packets receive() drops in a row before it gives others a turn.
constexpr int kReceiveAttempts = 64;

bool set_option(int fd, int level, int name, int value) noexcept {
  return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

// Makes the kernel drop the packets of one context. If this fails they are dropped later, which only costs time.
void ignore_context(int fd, std::uint64_t context) noexcept {
  constexpr std::uint32_t kUdpHeader = 8;
  constexpr auto kOffset = static_cast<std::uint32_t>(kUdpHeader + spi::kContextOffset);
  // The filter loads words as big-endian numbers, and the packet has little-endian ones.
  const auto first = __builtin_bswap32(static_cast<std::uint32_t>(context));
  const auto second = __builtin_bswap32(static_cast<std::uint32_t>(context >> 32));
  std::array<sock_filter, 8> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
      // The decoder counts packets that are too short to name a context.
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kOffset + 8, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kOffset),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kOffset + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  static_cast<void>(::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
}

// Room for one control message that names an interface.
union PacketInfo {
  cmsghdr header;
  std::array<char, CMSG_SPACE(sizeof(in6_pktinfo))> bytes;
};

template <typename Info>
void name_interface(msghdr& message, PacketInfo& control, int level, int type, const Info& info) noexcept {
  message.msg_control = control.bytes.data();
  message.msg_controllen = CMSG_SPACE(sizeof info);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = level;
  header->cmsg_type = type;
  header->cmsg_len = CMSG_LEN(sizeof info);
  std::memcpy(CMSG_DATA(header), &info, sizeof info);
}

bool send(int fd, msghdr& message) noexcept {
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

}  // namespace

SocketAddress group_address(const MulticastGroup& group, unsigned interface) noexcept {
  SocketAddress socket_address;
  if (group.is_ipv6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(group.port);
    address.sin6_addr = group.ipv6;
    address.sin6_scope_id = interface;
    std::memcpy(&socket_address.address, &address, sizeof address);
    socket_address.size = sizeof address;
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(group.port);
    address.sin_addr = group.ipv4;
    std::memcpy(&socket_address.address, &address, sizeof address);
    socket_address.size = sizeof address;
  }
  return socket_address;
}

Result<std::unique_ptr<UdpNetwork>> UdpNetwork::open(const MulticastOptions& options, std::uint64_t own_context) {
  std::unique_ptr<UdpNetwork> network(new UdpNetwork(options, own_context));
  if (Status status = network->start(); !status.ok()) return status;
  return network;
}

Status UdpNetwork::start() {
  // Before the first look at the interfaces, so that no change is missed.
  watch_ = watch_interfaces();
  retry_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  for (const MulticastGroup& group : options_.groups) {
    if (Status status = open_group(group); !status.ok()) return status;
    UniqueFd& sender = group.is_ipv6 ? sender6_ : sender4_;
    // There is no group socket if this system has no IPv6.
    if (sender || !groups_.back()) continue;
    if (Status status = open_sender(group.is_ipv6, sender); !status.ok()) return status;
  }
  refresh();
  return {};
}

Status UdpNetwork::open_group(const MulticastGroup& group) {
  constexpr const char* kAdvice =
      "choose another group or port with RIPC_MULTICAST, or switch the multicast resolver off with RIPC_MULTICAST=off";
  UniqueFd fd(::socket(group.is_ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd && errno == EAFNOSUPPORT) {
    groups_.emplace_back();
    return {};
  }
  if (!fd) return system_error(errno, "Opening a socket for the multicast group " + group.text(), kAdvice);
  const int level = group.is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP;
  bool prepared = set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1) &&
                  set_option(fd.get(), level, group.is_ipv6 ? IPV6_RECVPKTINFO : IP_PKTINFO, 1);
  if (group.is_ipv6) prepared = prepared && set_option(fd.get(), level, IPV6_V6ONLY, 1);
  // Receive only from groups that this socket has joined, not from those of the host's other sockets.
  prepared = prepared && set_option(fd.get(), level, group.is_ipv6 ? IPV6_MULTICAST_ALL : IP_MULTICAST_ALL, 0);
  static_cast<void>(set_option(fd.get(), SOL_SOCKET, SO_RCVBUF, kReceiveBuffer));
  if (own_context_ != 0) ignore_context(fd.get(), own_context_);
  // An IPv6 group of link scope can only be bound together with one interface; receive() looks at the destination.
  MulticastGroup bound = group;
  bound.ipv6 = in6addr_any;
  const SocketAddress socket_address = group_address(bound, 0);
  if (!prepared ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&socket_address.address), socket_address.size) != 0)
    return system_error(errno, "Listening to the multicast group " + group.text(), kAdvice);
  groups_.push_back(std::move(fd));
  return {};
}

Status UdpNetwork::open_sender(bool ipv6, UniqueFd& sender) const {
  UniqueFd fd(::socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto hops = static_cast<int>(options_.ttl);
  bool prepared = static_cast<bool>(fd);
  if (ipv6) {
    prepared = prepared && set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1) &&
               set_option(fd.get(), IPPROTO_IPV6, IPV6_MULTICAST_HOPS, hops) &&
               set_option(fd.get(), IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1);
  } else {
    prepared = prepared && set_option(fd.get(), IPPROTO_IP, IP_MULTICAST_TTL, hops) &&
               set_option(fd.get(), IPPROTO_IP, IP_MULTICAST_LOOP, 1) &&
               set_option(fd.get(), IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
  }
  // The port must be known before the first question, or its reply could come before the kernel has chosen one.
  MulticastGroup any;
  any.is_ipv6 = ipv6;
  any.ipv6 = in6addr_any;
  any.port = 0;
  const SocketAddress socket_address = group_address(any, 0);
  if (!prepared ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&socket_address.address), socket_address.size) != 0)
    return system_error(errno, "Opening the socket of the multicast resolver",
                        "allow it, or switch the multicast resolver off with RIPC_MULTICAST=off");
  static_cast<void>(set_option(fd.get(), SOL_SOCKET, SO_RCVBUF, kReceiveBuffer));
  sender = std::move(fd);
  return {};
}

// ---- Channels ------------------------------------------------------------------------------------------------

Status UdpNetwork::ReplyChannel::open() {
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return system_error(errno, "Making an event descriptor for the multicast resolver");
  Status status;
  if (network_.sender4_) status = network_.open_sender(false, sender4_);
  if (status.ok() && network_.sender6_) status = network_.open_sender(true, sender6_);
  buffer_.resize(spi::kMaxPacket);
  return status;
}

spi::SentPackets UdpNetwork::ReplyChannel::send_to_groups(std::span<const std::byte> bytes) noexcept {
  return network_.send_to_groups(bytes, sender4_, sender6_);
}

void UdpNetwork::ReplyChannel::wait(Nanoseconds timeout) noexcept {
  std::array<pollfd, 3> descriptors{
      {{sender4_.get(), POLLIN, 0}, {sender6_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  const timespec time = to_timespec(timeout);
  static_cast<void>(::ppoll(descriptors.data(), descriptors.size(), &time, nullptr));
  if (descriptors[2].revents != 0) clear_event(wake_.get());
}

void UdpNetwork::ReplyChannel::wake() noexcept { signal_event(wake_.get()); }

bool UdpNetwork::ReplyChannel::receive(spi::ReceivedPacket& received) noexcept {
  for (const UniqueFd* fd : {&sender4_, &sender6_}) {
    if (!*fd) continue;
    SocketAddress from;
    from.size = sizeof from.address;
    const ssize_t size = ::recvfrom(fd->get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC,
                                    reinterpret_cast<sockaddr*>(&from.address), &from.size);
    if (size < 0 || static_cast<std::size_t>(size) > buffer_.size()) continue;
    received = {};
    received.from = spi::PeerAddress::of(from);
    received.bytes = std::span(buffer_).first(static_cast<std::size_t>(size));
    return true;
  }
  return false;
}

// ---- Interfaces ----------------------------------------------------------------------------------------------

bool UdpNetwork::change_membership(const Membership& membership, bool join) noexcept {
  const MulticastGroup& group = options_.groups[membership.group];
  group_req request{};
  request.gr_interface = membership.interface.index;
  request.gr_group = group_address(group, 0).address;
  return ::setsockopt(groups_[membership.group].get(), group.is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
                      join ? MCAST_JOIN_GROUP : MCAST_LEAVE_GROUP, &request, sizeof request) == 0 ||
         errno == EADDRINUSE;
}

void UdpNetwork::refresh() {
  itimerspec retry{};
  retry.it_value.tv_sec = static_cast<time_t>(pause_.next() / 1'000'000'000);
  static_cast<void>(::timerfd_settime(retry_.get(), 0, &retry, nullptr));
  const Result<std::vector<Interface>> usable = usable_interfaces(options_.interfaces);
  // If there is no new list, the old one is the best guess.
  if (!usable.ok()) return;
  bool is_complete = true;
  auto fresh = std::make_shared<Memberships>();
  const std::shared_ptr<const Memberships> old = memberships();
  // Leave first: the kernel limits how many memberships a socket may have.
  for (const Membership& membership : *old) {
    const auto is_same = [&](const Interface& interface) { return interface == membership.interface; };
    if (std::ranges::none_of(*usable, is_same)) static_cast<void>(change_membership(membership, false));
  }
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    if (!groups_[group]) continue;
    for (const Interface& interface : *usable) {
      if (!(options_.groups[group].is_ipv6 ? interface.has_ipv6 : interface.has_ipv4)) continue;
      const Membership membership{group, interface};
      const bool is_joined = std::ranges::find(*old, membership) != old->end();
      if (is_joined || change_membership(membership, true)) {
        fresh->push_back(membership);
      } else {
        is_complete = false;
      }
    }
  }
  if (is_complete) {
    pause_.reset();
    retry = {};
    static_cast<void>(::timerfd_settime(retry_.get(), 0, &retry, nullptr));
  }
  const std::lock_guard lock(mutex_);
  memberships_ = std::move(fresh);
}

std::shared_ptr<const UdpNetwork::Memberships> UdpNetwork::memberships() const {
  const std::lock_guard lock(mutex_);
  return memberships_;
}

std::vector<std::string> UdpNetwork::interfaces() const {
  std::vector<std::string> names;
  const std::shared_ptr<const Memberships> current = memberships();
  for (const Membership& membership : *current) {
    if (std::ranges::find(names, membership.interface.name) == names.end()) names.push_back(membership.interface.name);
  }
  return names;
}

std::string UdpNetwork::text() const {
  std::string text;
  for (const MulticastGroup& group : options_.groups) text += (text.empty() ? "" : ", ") + group.text();
  text += " on ";
  std::string names;
  for (const std::string& name : interfaces()) names += (names.empty() ? "" : ", ") + name;
  return text + (names.empty() ? "no interface" : names);
}

// ---- Packets -------------------------------------------------------------------------------------------------

spi::SentPackets UdpNetwork::send_to_groups(std::span<const std::byte> bytes) noexcept {
  return send_to_groups(bytes, sender4_, sender6_);
}

spi::SentPackets UdpNetwork::send_to_groups(std::span<const std::byte> bytes, const UniqueFd& from4,
                                            const UniqueFd& from6) const noexcept {
  spi::SentPackets sent;
  const std::shared_ptr<const Memberships> current = memberships();
  for (const Membership& membership : *current) {
    const MulticastGroup& group = options_.groups[membership.group];
    SocketAddress to = group_address(group, membership.interface.index);
    iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
    PacketInfo control{};
    msghdr message{};
    message.msg_name = &to.address;
    message.msg_namelen = to.size;
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (group.is_ipv6) {
      in6_pktinfo info{};
      info.ipi6_ifindex = membership.interface.index;
      name_interface(message, control, IPPROTO_IPV6, IPV6_PKTINFO, info);
    } else {
      in_pktinfo info{};
      info.ipi_ifindex = static_cast<int>(membership.interface.index);
      name_interface(message, control, IPPROTO_IP, IP_PKTINFO, info);
    }
    if (send((group.is_ipv6 ? from6 : from4).get(), message)) {
      ++sent.packets;
      sent.bytes += bytes.size();
    } else {
      ++sent.failures;
    }
  }
  return sent;
}

spi::SentPackets UdpNetwork::send_to(const spi::PeerAddress& to, std::span<const std::byte> bytes) noexcept {
  auto peer = to.as<SocketAddress>();
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_name = &peer.address;
  message.msg_namelen = peer.size;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (send((peer.address.ss_family == AF_INET6 ? sender6_ : sender4_).get(), message)) return {1, bytes.size(), 0};
  return {0, 0, 1};
}

PeerAuthorizer::Verdict UdpNetwork::authorize(const spi::PeerAddress& from) {
  const auto sender = from.as<SocketAddress>();
  return authorizer_.authorize_sender(reinterpret_cast<const sockaddr&>(sender.address));
}

std::vector<pollfd> UdpNetwork::descriptors() const {
  std::vector<pollfd> descriptors;
  const auto add = [&](const UniqueFd& fd) {
    if (fd) descriptors.push_back({fd.get(), POLLIN, 0});
  };
  for (const UniqueFd& group : groups_) add(group);
  add(sender4_);
  add(sender6_);
  add(watch_);
  add(retry_);
  return descriptors;
}

spi::Arrival UdpNetwork::receive(int fd, std::span<std::byte> buffer, spi::ReceivedPacket& received) {
  if (fd == watch_.get() || fd == retry_.get()) {
    if (fd == watch_.get()) drain_watch(fd);
    refresh();
    return spi::Arrival::nothing;
  }
  const auto group = std::ranges::find_if(groups_, [&](const UniqueFd& item) { return item.get() == fd; });
  for (int attempt = 0; attempt < kReceiveAttempts; ++attempt) {
    received = {};
    iovec data{buffer.data(), buffer.size()};
    PacketInfo control{};
    SocketAddress from;
    msghdr message{};
    message.msg_name = &from.address;
    message.msg_namelen = sizeof from.address;
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    const ssize_t size = ::recvmsg(fd, &message, MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) return spi::Arrival::nothing;
    // Any other error belongs to an earlier packet of ours (such as: no one listens at its destination).
    if (size < 0) continue;
    if ((message.msg_flags & MSG_TRUNC) != 0) continue;
    received.bytes = buffer.first(static_cast<std::size_t>(size));
    from.size = message.msg_namelen;
    received.from = spi::PeerAddress::of(from);
    if (group == groups_.end()) return spi::Arrival::packet;
    const MulticastGroup& wanted = options_.groups[static_cast<std::size_t>(group - groups_.begin())];
    unsigned interface = 0;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (wanted.is_ipv6 && header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
        in6_pktinfo info;
        std::memcpy(&info, CMSG_DATA(header), sizeof info);
        received.to_group = IN6_ARE_ADDR_EQUAL(&info.ipi6_addr, &wanted.ipv6);
        interface = info.ipi6_ifindex;
      } else if (!wanted.is_ipv6 && header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
        in_pktinfo info;
        std::memcpy(&info, CMSG_DATA(header), sizeof info);
        received.to_group = info.ipi_addr.s_addr == wanted.ipv4.s_addr;
        interface = static_cast<unsigned>(info.ipi_ifindex);
      }
    }
    // The packet was sent to the port but not to the group, which libripc never does.
    if (!received.to_group) continue;
    for (const Membership& membership : *memberships_) {
      if (membership.interface.index == interface) received.interface = membership.interface.name;
    }
    return spi::Arrival::packet;
  }
  return spi::Arrival::nothing;
}

}  // namespace ripc::internal::resolver
