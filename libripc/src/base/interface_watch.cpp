// SPDX-License-Identifier: Apache-2.0
#include "base/interface_watch.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace ripc::internal {

UniqueFd watch_interfaces() {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!fd) return fd;
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

void drain_watch(int fd) noexcept {
  std::array<char, 8192> buffer;
  // ENOBUFS says that some messages were lost: which ones does not matter.
  while (::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT) >= 0 || errno == EINTR || errno == ENOBUFS) {
  }
}

}  // namespace ripc::internal
