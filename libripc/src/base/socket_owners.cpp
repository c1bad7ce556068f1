// SPDX-License-Identifier: Apache-2.0
#include "base/socket_owners.hpp"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/first_line.hpp"

namespace ripc::internal {

namespace {

// An IPv4-mapped IPv6 address (::ffff:a.b.c.d) counts as an IPv4 address.
struct Address {
  std::uint8_t family = AF_UNSPEC;
  std::array<std::uint8_t, 16> ip{};
  std::uint16_t port = 0;   // in network order
  std::uint32_t scope = 0;  // of a link-local address
  bool operator==(const Address& other) const noexcept {
    return family == other.family && ip == other.ip && port == other.port;
  }
};

Address address_of(std::uint8_t family, const void* ip, std::uint16_t port) noexcept {
  Address address{.family = family, .port = port};
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (family == AF_INET6 && std::memcmp(ip, kMapped.data(), kMapped.size()) == 0) {
    address.family = AF_INET;
    ip = static_cast<const std::uint8_t*>(ip) + kMapped.size();
  }
  std::memcpy(address.ip.data(), ip, address.family == AF_INET ? 4 : 16);
  return address;
}

Address address_of(const sockaddr& from) noexcept {
  if (from.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &from, sizeof v4);
    return address_of(AF_INET, &v4.sin_addr, v4.sin_port);
  }
  if (from.sa_family != AF_INET6) return {};
  sockaddr_in6 v6;
  std::memcpy(&v6, &from, sizeof v6);
  Address address = address_of(AF_INET6, &v6.sin6_addr, v6.sin6_port);
  if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) address.scope = v6.sin6_scope_id;
  return address;
}

// A line of the kernel's lists of sockets.
struct ProcLine {
  Address local, remote;
  std::uint8_t family = AF_UNSPEC;  // of the socket
  bool is_listening = false;
  bool is_ipv6_only = false;  // not reported for all that are
  uid_t user = 0;
  std::uint64_t inode = 0;  // 0: no process has it (any more, or yet), and the user means nothing
};

// NOLINTBEGIN(cert-err34-c): the kernel writes these numbers, and they fit
// A user outside this process's user namespace appears under the number "overflowuid".
bool is_certain(uid_t user) {
  unsigned overflow = 65534;
  (void)std::sscanf(first_line("/proc/sys/kernel/overflowuid").c_str(), "%u", &overflow);
  if (user != overflow) return true;
  unsigned inside = 1;
  unsigned outside = 1;
  unsigned count = 0;
  // True if no user is outside. A kernel without user namespaces has no such file.
  if (std::sscanf(first_line("/proc/self/uid_map").c_str(), "%u%u%u", &inside, &outside, &count) == 3)
    return inside == 0 && outside == 0 && count == UINT32_MAX;
  return ::access("/proc/self/uid_map", F_OK) != 0 && ::access("/proc/self/status", F_OK) == 0;
}

ProcLine entry_of(const inet_diag_msg& said, std::span<const std::byte> attributes) noexcept {
  ProcLine entry{
      .local = address_of(said.idiag_family, static_cast<const void*>(said.id.idiag_src), said.id.idiag_sport),
      .remote = address_of(said.idiag_family, static_cast<const void*>(said.id.idiag_dst), said.id.idiag_dport),
      .family = said.idiag_family,
      .is_listening = said.idiag_state == TCP_LISTEN,
      .user = said.idiag_uid,
      .inode = said.idiag_inode};
  for (std::size_t offset = 0; offset + sizeof(nlattr) < attributes.size();) {
    nlattr attribute;
    std::memcpy(&attribute, attributes.data() + offset, sizeof attribute);
    if (attribute.nla_len < sizeof attribute) break;
    if (attribute.nla_type == INET_DIAG_SKV6ONLY)
      entry.is_ipv6_only = attributes[offset + sizeof attribute] != std::byte{0};
    offset += NLMSG_ALIGN(attribute.nla_len);
  }
  return entry;
}

// "0100007F:1F90": words of the address in this machine's byte order, and the port as a number.
bool parse_proc(const char* text, std::uint8_t family, Address& address) noexcept {
  std::array<std::uint32_t, 4> words{};
  const std::size_t count = family == AF_INET ? 1 : 4;
  for (std::size_t index = 0; index < count; ++index, text += 8) {
    if (std::strlen(text) < 8 || std::sscanf(text, "%8x", &words[index]) != 1) return false;
  }
  unsigned port = 0;
  if (std::sscanf(text, ":%x", &port) != 1) return false;
  address = address_of(family, words.data(), htons(static_cast<std::uint16_t>(port)));
  return true;
}

void visit_list(const char* name, std::uint8_t family, const std::function<void(const ProcLine&)>& visit) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(name, "re"), &std::fclose);
  std::array<char, 512> line;
  while (file && std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    std::array<char, 48> local;
    std::array<char, 48> remote;
    unsigned state = 0;
    ProcLine entry;
    entry.family = family;
    unsigned long long inode = 0;
    if (std::sscanf(line.data(), " %*u: %47s %47s %x %*s %*s %*s %u %*s %llu", local.data(), remote.data(), &state,
                    &entry.user, &inode) != 5)
      continue;  // the heading
    entry.inode = inode;
    entry.is_listening = state == TCP_LISTEN;
    if (parse_proc(local.data(), family, entry.local) && parse_proc(remote.data(), family, entry.remote)) visit(entry);
  }
}
// NOLINTEND(cert-err34-c)

void visit_proc(std::uint8_t protocol, const std::function<void(const ProcLine&)>& visit) {
  const bool is_tcp = protocol == IPPROTO_TCP;
  visit_list(is_tcp ? "/proc/thread-self/net/tcp" : "/proc/thread-self/net/udp", AF_INET, visit);
  visit_list(is_tcp ? "/proc/thread-self/net/tcp6" : "/proc/thread-self/net/udp6", AF_INET6, visit);
}

struct DiagnosisRequest {
  nlmsghdr header{};
  inet_diag_req_v2 body{};
};

DiagnosisRequest diagnosis(std::uint8_t family, std::uint8_t protocol, std::uint16_t port, bool all) noexcept {
  DiagnosisRequest request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = all ? NLM_F_DUMP : 0;
  request.body.sdiag_family = family;
  request.body.sdiag_protocol = protocol;
  request.body.idiag_states = UINT32_MAX;
  request.body.id.idiag_sport = port;
  request.body.id.idiag_cookie[0] = request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

// For ask(): calls look(entry) for each socket that the kernel reports.
template <typename Look>
auto visit_diagnosis(const Look& look) noexcept {
  return [&look](std::uint16_t type, std::span<const std::byte> body) {
    inet_diag_msg said;
    if (type != SOCK_DIAG_BY_FAMILY || body.size() < sizeof said) return;
    std::memcpy(&said, body.data(), sizeof said);
    look(entry_of(said, body.subspan(sizeof said)));
  };
}

template <typename T>
std::span<std::byte> bytes_of(T& value) noexcept {
  return std::as_writable_bytes(std::span(&value, 1));
}

UniqueFd open_netlink(int protocol) noexcept {
  return UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
}

// Whether a socket can be bound to the address. This answers the same question where the kernel does not report its
// routes.
bool can_bind(const Address& address) noexcept {
  const UniqueFd socket(::socket(address.family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  std::memcpy(&v4.sin_addr, address.ip.data(), sizeof v4.sin_addr);
  std::memcpy(&v6.sin6_addr, address.ip.data(), sizeof v6.sin6_addr);
  v6.sin6_scope_id = address.scope;
  const int bound = address.family == AF_INET ? ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&v4), sizeof v4)
                                              : ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
  return bound == 0 || errno != EADDRNOTAVAIL;
}

}  // namespace

SocketOwners::SocketOwners(Method method) noexcept {
  if (method == Method::proc) return;
  diagnosis_ = open_netlink(NETLINK_SOCK_DIAG);
  routes_ = open_netlink(NETLINK_ROUTE);
}

int SocketOwners::ask(const UniqueFd& socket, std::span<std::byte> request, const Visit& visit) noexcept try {
  if (!socket) return EBADF;
  const std::lock_guard lock(mutex_);
  nlmsghdr header;
  std::memcpy(&header, request.data(), sizeof header);
  header.nlmsg_len = static_cast<std::uint32_t>(request.size());
  header.nlmsg_flags |= NLM_F_REQUEST;
  header.nlmsg_seq = ++sequence_;
  std::memcpy(request.data(), &header, sizeof header);
  if (::send(socket.get(), request.data(), request.size(), 0) < 0) return errno;
  alignas(nlmsghdr) std::array<std::byte, 8192> buffer;
  for (;;) {
    // The kernel has answered within send(); the rest of a list follows as the part before it is read.
    const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0 ? EPIPE : errno;
    std::span<const std::byte> rest(buffer.data(), static_cast<std::size_t>(got));
    while (rest.size() >= sizeof header) {
      std::memcpy(&header, rest.data(), sizeof header);
      if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest.size()) return EPROTO;
      const std::span<const std::byte> body = rest.subspan(NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN);
      rest = rest.subspan(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), rest.size()));
      if (header.nlmsg_seq != sequence_) continue;  // answers a request that was given up
      if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR) {
        int error = 0;
        std::memcpy(&error, body.data(), std::min(sizeof error, body.size()));
        return -error;
      }
      visit(header.nlmsg_type, body);
      if ((header.nlmsg_flags & NLM_F_MULTI) == 0) return 0;
    }
  }
} catch (const std::bad_alloc&) {
  return ENOMEM;
}

bool SocketOwners::is_own(const sockaddr& address) noexcept {
  const Address wanted = address_of(address);
  if (wanted.family == AF_UNSPEC) return true;
  struct {
    nlmsghdr header{};
    rtmsg body{};
    rtattr to_header{};
    std::array<std::uint8_t, 16> to{};
    rtattr by_header{};
    std::uint32_t by = 0;
  } request;
  const std::uint16_t size = wanted.family == AF_INET ? 4 : 16;
  request.header.nlmsg_type = RTM_GETROUTE;
  request.body.rtm_family = wanted.family;
  request.body.rtm_dst_len = static_cast<std::uint8_t>(size * 8);
  request.to_header = {.rta_len = static_cast<std::uint16_t>(sizeof(rtattr) + size), .rta_type = RTA_DST};
  request.to = wanted.ip;
  request.by_header = {.rta_len = sizeof(rtattr) + sizeof request.by, .rta_type = RTA_OIF};
  request.by = wanted.scope;
  const std::size_t without_scope = offsetof(decltype(request), to) + size;
  std::optional<std::uint8_t> type;
  const int error = ask(routes_, bytes_of(request).first(wanted.scope != 0 ? sizeof request : without_scope),
                        [&](std::uint16_t kind, std::span<const std::byte> body) {
                          rtmsg route;
                          if (kind != RTM_NEWROUTE || body.size() < sizeof route) return;
                          std::memcpy(&route, body.data(), sizeof route);
                          type = route.rtm_type;
                        });
  if (error == 0 && type) return *type == RTN_LOCAL;
  // A host can always reach its own addresses.
  if (error == ENETUNREACH || error == EHOSTUNREACH) return false;
  return can_bind(wanted);
}

std::optional<uid_t> SocketOwners::of_connection(const sockaddr& end, const sockaddr& other) noexcept try {
  const Address local = address_of(end);
  const Address remote = address_of(other);
  std::optional<uid_t> user;
  const auto look = [&](const ProcLine& entry) {
    if (entry.local == local && entry.remote == remote && !entry.is_listening && entry.inode != 0 &&
        is_certain(entry.user))
      user = entry.user;
  };
  DiagnosisRequest request = diagnosis(local.family, IPPROTO_TCP, local.port, false);
  request.body.id.idiag_dport = remote.port;
  request.body.id.idiag_if = local.scope;
  std::memcpy(static_cast<void*>(request.body.id.idiag_src), local.ip.data(), local.ip.size());
  std::memcpy(static_cast<void*>(request.body.id.idiag_dst), remote.ip.data(), remote.ip.size());
  const int error = ask(diagnosis_, bytes_of(request), visit_diagnosis(look));
  if (error == 0) diagnoses_tcp_.store(true, std::memory_order_relaxed);
  // ENOENT: there is no such connection, or the kernel cannot load the part that knows TCP.
  if (error != 0 && !diagnoses_tcp_.load(std::memory_order_relaxed)) {
    visit_proc(IPPROTO_TCP, look);
  }
  return user;
} catch (const std::bad_alloc&) {
  return std::nullopt;
}

std::vector<uid_t> SocketOwners::of_sender(const sockaddr& from) { return at_port(IPPROTO_UDP, false, from); }

std::optional<uid_t> SocketOwners::of_listener(const sockaddr& address) noexcept try {
  const std::vector<uid_t> users = at_port(IPPROTO_TCP, true, address);
  if (users.empty() || std::any_of(users.begin(), users.end(), [&](uid_t user) { return user != users.front(); }))
    return std::nullopt;
  return users.front();
} catch (const std::bad_alloc&) {
  return std::nullopt;
}

std::vector<uid_t> SocketOwners::at_port(std::uint8_t protocol, bool listening, const sockaddr& address) {
  const Address source = address_of(address);
  std::vector<uid_t> users;
  bool is_known = true;
  const auto look = [&](const ProcLine& entry) {
    // A socket can send from any address of the host, wherever it is bound.
    const bool may_send = source.family == AF_INET ? !entry.is_ipv6_only : entry.family == AF_INET6;
    if (entry.local.port != source.port || entry.is_listening != listening || !may_send) return;
    is_known = is_known && entry.inode != 0 && is_certain(entry.user);
    users.push_back(entry.user);
  };
  int error = 0;
  for (const std::uint8_t family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    if (source.family == AF_INET6 && family == AF_INET) continue;
    DiagnosisRequest request = diagnosis(family, protocol, source.port, true);
    if (listening) request.body.idiag_states = 1U << TCP_LISTEN;
    const int failed = ask(diagnosis_, bytes_of(request), visit_diagnosis(look));
    if (failed != 0) error = failed;
  }
  if (error != 0) {
    users.clear();
    is_known = true;
    visit_proc(protocol, look);
  }
  if (!is_known) users.clear();
  return users;
}

}  // namespace ripc::internal
