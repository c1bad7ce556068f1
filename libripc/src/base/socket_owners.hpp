// SPDX-License-Identifier: Apache-2.0
// Who owns the sockets of this host. The kernel reports it through NETLINK_SOCK_DIAG, or through /proc/net where
// NETLINK_SOCK_DIAG does not answer. "This host" is this process's network namespace.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/unique_fd.hpp"

namespace ripc::internal {

// Any thread. Keeps two descriptors open, so that it works even when no more are available. A user is known only while
// a process holds the socket, and only if the user has a number in this process's user namespace.
class SocketOwners {
 public:
  enum class Method : std::uint8_t { netlink, proc };
  // Method::proc is for tests: it behaves as if netlink did not answer.
  explicit SocketOwners(Method method = Method::netlink) noexcept;

  // Whether the address belongs to this host. True if the kernel does not say.
  bool is_own(const sockaddr& address) noexcept;
  // The user of the TCP socket that is bound to `end` and connected to `other`. nullopt: unknown.
  std::optional<uid_t> of_connection(const sockaddr& end, const sockaddr& other) noexcept;
  // The user of the TCP sockets that listen at this address, if they all have the same user.
  std::optional<uid_t> of_listener(const sockaddr& address) noexcept;
  // The users of all UDP sockets that may have sent a datagram with this source. Empty: unknown.
  std::vector<uid_t> of_sender(const sockaddr& from);

 private:
  using Visit = std::function<void(std::uint16_t type, std::span<const std::byte> body)>;
  // The users of all sockets of this kind at the port. Empty: unknown.
  std::vector<uid_t> at_port(std::uint8_t protocol, bool listening, const sockaddr& address);
  // Sends the request, whose header it completes, and visits what the kernel answers. 0, or an errno.
  int ask(const UniqueFd& socket, std::span<std::byte> request, const Visit& visit) noexcept;

  UniqueFd diagnosis_;  // invalid: the kernel does not have it
  UniqueFd routes_;
  std::atomic<bool> diagnoses_tcp_{false};  // it has reported a TCP socket
  std::mutex mutex_;
  std::uint32_t sequence_ = 0;
};

}  // namespace ripc::internal
