// SPDX-License-Identifier: Apache-2.0
// Both ends of links that get their own connection, for packets that are larger than a datagram.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "link_ends.hpp"

namespace ripc::internal::socket {

inline bool grows(remote::UdpChannel& channel) { return channel.widen(wire::datagram::kMaxRecordPacket) == RIPC_OK; }

class MediumLink : public LinkEnds {
 protected:
  explicit MediumLink(bool seals = false) : LinkEnds(true, seals), seals_(seals) {}
  // A channel that has grown a connection, from which a packet was taken.
  std::shared_ptr<remote::UdpChannel> grown() {
    const auto channel = sender_.channel(receiver_);
    if (!channel || !grows(*channel) || send_text(*channel, "first") != RIPC_OK || !poll_until(1)) return nullptr;
    source_ = sink_.packets.back().first;
    sink_.packets.clear();
    return channel;
  }
  // Links of other senders: together with a further one, more than are read directly.
  void add_other_links() {
    for (int count = 0; count < 4; ++count) {
      others_.push_back(std::make_unique<Node>(options(true, seals_)));
      other_channels_.push_back(others_.back()->channel(receiver_));
      ASSERT_NE(other_channels_.back(), nullptr);
    }
  }
  // Takes all datagrams out of the sockets of this process, as a network that loses them.
  static std::size_t lose_datagrams() {
    std::size_t lost = 0;
    for (int fd = 0; fd < 1024; ++fd) {
      int type = 0;
      socklen_t size = sizeof type;
      if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_DGRAM) continue;
      std::byte none;
      while (recv(fd, &none, 1, MSG_DONTWAIT | MSG_TRUNC) > 0) ++lost;
    }
    return lost;
  }

  const bool seals_;
  std::vector<std::unique_ptr<Node>> others_;
  std::vector<std::shared_ptr<remote::UdpChannel>> other_channels_;
  spi::Source* source_ = nullptr;  // of that channel
};

class SealedMediumLink : public MediumLink {
 protected:
  SealedMediumLink() : MediumLink(true) {}
};

}  // namespace ripc::internal::socket
