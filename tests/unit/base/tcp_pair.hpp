// SPDX-License-Identifier: Apache-2.0
// The two ends of a TCP connection within this process.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/unique_fd.hpp"

namespace ripc::internal {

// Connected to this address of the loopback network.
inline std::pair<UniqueFd, UniqueFd> tcp_pair(std::uint32_t to = INADDR_LOOPBACK) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(to);
  socklen_t size = sizeof address;
  UniqueFd near(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::connect(near.get(), reinterpret_cast<sockaddr*>(&address), size) != 0)
    ADD_FAILURE() << "no TCP on loopback: " << std::strerror(errno);
  UniqueFd far(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return {std::move(near), std::move(far)};
}

}  // namespace ripc::internal
