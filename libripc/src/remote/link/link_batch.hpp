// SPDX-License-Identifier: Apache-2.0
// Several datagrams for one link socket, sent with one system call. Neighbours of equal size go through the network
// stack as one, which the system cuts into datagrams at its end (UDP_SEGMENT), where it can.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ripc/ripc.h"
#include "wire/datagram.hpp"
#include "wire/plain.hpp"

namespace ripc::internal::remote {

// One thread. Borrows the items of its messages.
class LinkBatch {
 public:
  static constexpr std::size_t kMost = 64;      // datagrams; the system cuts no more at once
  static constexpr std::size_t kMostItems = 8;  // of one message

  LinkBatch() noexcept {}  // NOLINT(modernize-use-equals-default): then LinkBatch{} would clear the arrays

  // There must be room, and the message must have kMostItems items at most.
  void add(const wire::datagram::Header& header, const wire::Plain& message) noexcept;
  std::size_t size() const noexcept { return count_; }
  bool full() const noexcept { return count_ == kMost; }

  // Sends the datagrams over a connected UDP socket, in order; how many the system took. If not all: errno. `segment`:
  // whether to let the system cut; cleared when that turns out to be impossible on this path.
  std::size_t send(int fd, std::atomic<bool>& segment) noexcept;

 private:
  static constexpr std::size_t kMostBytes = 65000;  // that are cut at once
  using Control = std::array<std::byte, CMSG_SPACE(sizeof(std::uint16_t))>;

  std::size_t send_from(int fd, std::size_t first, bool segment) noexcept;

  std::size_t count_ = 0;
  std::size_t parts_used_ = 0;
  std::array<std::array<std::byte, wire::datagram::kHeaderSize + wire::packet_size(kMostItems, 0)>, kMost> heads_;
  std::array<iovec, kMost*(kMostItems + 1)> parts_;
  std::array<std::uint32_t, kMost + 1> first_part_;  // of each datagram, and the end
  std::array<std::uint32_t, kMost> sizes_;
};

}  // namespace ripc::internal::remote
