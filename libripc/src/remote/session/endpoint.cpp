// SPDX-License-Identifier: Apache-2.0
#include "remote/session/endpoint.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/interface_list.hpp"
#include "base/random.hpp"

namespace ripc::internal::remote {

bool Endpoint::parse(const std::string& ip, std::uint16_t port, Endpoint& endpoint) {
  endpoint = Endpoint();
  // The calls below would take the zero for the end.
  if (ip.find('\0') != std::string::npos) return false;
  if (inet_pton(AF_INET, ip.c_str(), &endpoint.address_.v4.sin_addr) == 1) {
    endpoint.address_.v4.sin_family = AF_INET;
    endpoint.address_.v4.sin_port = htons(port);
    endpoint.size_ = sizeof(sockaddr_in);
    return true;
  }
  endpoint = Endpoint();
  const std::size_t percent = ip.find('%');
  sockaddr_in6& v6 = endpoint.address_.v6;
  if (inet_pton(AF_INET6, ip.substr(0, percent).c_str(), &v6.sin6_addr) != 1) return false;
  if (percent != std::string::npos) {
    v6.sin6_scope_id = if_nametoindex(ip.c_str() + percent + 1);
    if (v6.sin6_scope_id == 0) return false;
  }
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  endpoint.size_ = sizeof(sockaddr_in6);
  endpoint.normalize();
  return true;
}

Endpoint Endpoint::query(int (*ask)(int, sockaddr*, socklen_t*), int fd) noexcept {
  Endpoint endpoint;
  socklen_t size = sizeof endpoint.address_;
  if (ask(fd, &endpoint.address_.any, &size) != 0) return {};
  endpoint.size_ = size;
  endpoint.normalize();
  return endpoint;
}

Endpoint Endpoint::local_of(int fd) noexcept { return query(getsockname, fd); }

Endpoint Endpoint::remote_of(int fd) noexcept { return query(getpeername, fd); }

Endpoint Endpoint::of(const sockaddr& address) noexcept {
  Endpoint endpoint;
  if (address.sa_family == AF_INET) {
    std::memcpy(&endpoint.address_.v4, &address, sizeof(sockaddr_in));
    endpoint.size_ = sizeof(sockaddr_in);
  } else if (address.sa_family == AF_INET6) {
    std::memcpy(&endpoint.address_.v6, &address, sizeof(sockaddr_in6));
    endpoint.size_ = sizeof(sockaddr_in6);
  }
  endpoint.normalize();
  return endpoint;
}

void Endpoint::normalize() noexcept {
  if (family() != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&address_.v6.sin6_addr)) return;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = address_.v6.sin6_port;
  std::memcpy(&v4.sin_addr, address_.v6.sin6_addr.s6_addr + 12, sizeof v4.sin_addr);
  address_.v4 = v4;
  size_ = sizeof v4;
}

std::uint16_t Endpoint::port() const noexcept {
  return ntohs(family() == AF_INET ? address_.v4.sin_port : address_.v6.sin6_port);
}

Endpoint Endpoint::with_port(std::uint16_t port) const noexcept {
  Endpoint other = *this;
  if (family() == AF_INET) {
    other.address_.v4.sin_port = htons(port);
  } else {
    other.address_.v6.sin6_port = htons(port);
  }
  return other;
}

bool Endpoint::is_loopback() const noexcept {
  if (family() == AF_INET) return (ntohl(address_.v4.sin_addr.s_addr) >> 24) == 127;
  return IN6_IS_ADDR_LOOPBACK(&address_.v6.sin6_addr);
}

bool Endpoint::same_ip(const Endpoint& other) const noexcept {
  if (family() != other.family()) return false;
  if (family() == AF_INET) return address_.v4.sin_addr.s_addr == other.address_.v4.sin_addr.s_addr;
  return std::memcmp(&address_.v6.sin6_addr, &other.address_.v6.sin6_addr, sizeof(in6_addr)) == 0 &&
         address_.v6.sin6_scope_id == other.address_.v6.sin6_scope_id;
}

std::string Endpoint::ip() const {
  if (!*this) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &address_.v4.sin_addr, text.data(), text.size());
    return text.data();
  }
  inet_ntop(AF_INET6, &address_.v6.sin6_addr, text.data(), text.size());
  std::string result = text.data();
  std::array<char, IF_NAMESIZE> name{};
  if (address_.v6.sin6_scope_id != 0 && if_indextoname(address_.v6.sin6_scope_id, name.data()) != nullptr)
    result = result + '%' + name.data();
  return result;
}

std::string Endpoint::text() const {
  const std::string port_text = ':' + std::to_string(port());
  return family() == AF_INET6 ? '[' + ip() + ']' + port_text : ip() + port_text;
}

Result<GuardedSocket> open_socket(int family, int type) {
  GuardedSocket socket;
  socket.fd = ForkGuard::open(socket.guard, [&] { return ::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
  if (!socket.fd) return system_error(errno, "socket", "raise `ulimit -n`");
  return socket;
}

Status bind_in_range(int fd, const Endpoint& address, PortRange range, PortOrder order) {
  const std::uint32_t count = range.first == 0 ? 1 : std::uint32_t{range.last} - range.first + 1;
  // Not every context of a machine should try the same ports in the same order.
  const std::uint32_t start =
      count == 1 || order == PortOrder::lowest_first ? 0 : static_cast<std::uint32_t>(random_u64() % count);
  for (std::uint32_t index = 0; index < count; ++index) {
    const auto port = static_cast<std::uint16_t>(range.first == 0 ? 0 : range.first + (start + index) % count);
    const Endpoint wanted = address.with_port(port);
    if (::bind(fd, wanted.address(), wanted.size()) == 0) return {};
    if (errno != EADDRINUSE && errno != EACCES)
      return system_error(errno, "bind", "check RIPC_SOCKET_ADDRESS and the addresses of this machine (`ip address`)");
  }
  return Status(RIPC_SYSTEM, "No port from " + std::to_string(range.first) + " to " + std::to_string(range.last) +
                                 " is free on " + address.ip() + ": widen RIPC_SOCKET_PORTS.");
}

std::vector<std::string> own_addresses(const std::string& interface) {
  std::vector<std::string> usable;
  std::vector<std::string> loopback;
  const InterfaceList list = list_interfaces();
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    if (!interface.empty() && interface != entry->ifa_name) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (entry->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr, text.data(), text.size());
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
      // A link-local address is useful only with the name of the other machine's interface.
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;
      inet_ntop(AF_INET6, &address, text.data(), text.size());
    } else {
      continue;
    }
    std::vector<std::string>& target = (entry->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : usable;
    if (std::find(target.begin(), target.end(), text.data()) == target.end()) target.emplace_back(text.data());
  }
  usable.insert(usable.end(), loopback.begin(), loopback.end());
  return usable;
}

std::string host_identity() {
  const UniqueFd fd(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  if (!fd || read(fd.get(), text.data(), text.size() - 1) < 32) return {};
  struct stat space {};
  if (stat("/proc/self/ns/net", &space) != 0) return {};
  std::string identity;
  for (const char* at = text.data(); *at != '\0' && *at != '\n'; ++at) {
    if (*at != '-') identity += *at;
  }
  return identity + '.' + std::to_string(space.st_ino);
}

}  // namespace ripc::internal::remote
