// SPDX-License-Identifier: Apache-2.0
// IP addresses with ports, those of this machine, and sockets bound to them.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/fork_guard.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal::remote {

// An IPv4 or IPv6 address and a port. An IPv4-mapped IPv6 address (::ffff:a.b.c.d) counts as IPv4.
class Endpoint {
 public:
  // `ip` is a literal such as 192.0.2.1, 2001:db8::1 or fe80::1%eth0; names are not looked up. False if it is none.
  static bool parse(const std::string& ip, std::uint16_t port, Endpoint& endpoint);
  // The addresses that a socket is bound to and connected to. Empty if it is not.
  static Endpoint local_of(int fd) noexcept;
  static Endpoint remote_of(int fd) noexcept;

  // Converts an IPv4 or IPv6 address; empty for any other family.
  static Endpoint of(const sockaddr& address) noexcept;

  explicit operator bool() const noexcept { return size_ != 0; }
  int family() const noexcept { return address_.any.sa_family; }
  const sockaddr* address() const noexcept { return &address_.any; }
  socklen_t size() const noexcept { return size_; }
  std::uint16_t port() const noexcept;
  Endpoint with_port(std::uint16_t port) const noexcept;
  bool is_loopback() const noexcept;
  std::string ip() const;
  std::string text() const;  // with the port, for people
  bool same_ip(const Endpoint& other) const noexcept;

 private:
  static Endpoint query(int (*ask)(int, sockaddr*, socklen_t*), int fd) noexcept;
  void normalize() noexcept;

  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  } address_{};
  socklen_t size_ = 0;
};

// Ports that this context may bind; {0, 0}: any.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

// A socket that a forked child does not keep.
struct GuardedSocket {
  UniqueFd fd;
  ForkGuard guard;

  GuardedSocket() noexcept = default;
  GuardedSocket(GuardedSocket&&) noexcept = default;
  GuardedSocket& operator=(GuardedSocket&& other) noexcept {
    close();
    fd = std::move(other.fd);
    guard = std::move(other.guard);
    return *this;
  }
  ~GuardedSocket() { close(); }
  void close() noexcept {
    if (fd) guard.close(fd);
  }
};

// A non-blocking socket of this type. RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
Result<GuardedSocket> open_socket(int family, int type);
enum class PortOrder : std::uint8_t { any, lowest_first };
// Binds to the address, and to a port of the range. The text of RIPC_SYSTEM names what is in the way.
Status bind_in_range(int fd, const Endpoint& address, PortRange range, PortOrder order = PortOrder::any);

// The unicast addresses that others can use to reach this machine, loopback last. With `interface` only that one's.
std::vector<std::string> own_addresses(const std::string& interface);

// Identifies this machine, since its last start, and the network namespace: two processes with the same identity see
// the same loopback interface. Empty where the system does not tell.
std::string host_identity();

}  // namespace ripc::internal::remote
