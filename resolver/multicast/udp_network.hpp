// SPDX-License-Identifier: Apache-2.0
// The multicast resolver's packets as UDP datagrams. Each group has a socket that receives from it. Each address family
// has one socket that sends everything and receives the replies.
//
// Several contexts of one host share the group's port (SO_REUSEADDR: the kernel gives each a copy of every multicast
// packet). Questions go out on each joined interface by its number, so no route is needed.
#pragma once

#include <poll.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/peer_authorizer.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "resolver/multicast/interfaces.hpp"
#include "resolver/multicast/options.hpp"
#include "spi/multicast_network.hpp"
#include "spi/service_packet.hpp"

namespace ripc::internal::resolver {

// A socket's address.
struct SocketAddress {
  sockaddr_storage address{};
  socklen_t size = 0;
};
SocketAddress group_address(const MulticastGroup& group, unsigned interface) noexcept;

class UdpNetwork final : public spi::MulticastNetwork {
 public:
  // Sockets through which one thread asks and itself waits for the reply, so no second thread has to wake. One thread
  // at a time; any thread may call wake(). The network outlives it.
  class ReplyChannel {
   public:
    explicit ReplyChannel(const UdpNetwork& network) : network_(network) {}
    // Before any other call. RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
    Status open();
    // Like the function of the network, but replies come to the channel.
    spi::SentPackets send_to_groups(std::span<const std::byte> bytes) noexcept;
    // Waits until a packet is there, wake() was called, or the time is over.
    void wait(Nanoseconds timeout) noexcept;
    void wake() noexcept;
    // The next packet, in a buffer of this object. False: there is none.
    bool receive(spi::ReceivedPacket& received) noexcept;

   private:
    const UdpNetwork& network_;
    UniqueFd sender4_;  // invalid: no group of this family
    UniqueFd sender6_;
    UniqueFd wake_;
    std::vector<std::byte> buffer_;
  };

  // Opens the sockets and joins the groups. Packets that own_context sent to the groups are not received (0: all are).
  // It is no error if no interface is usable. RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM (such
  // as: another program has the port for itself).
  static Result<std::unique_ptr<UdpNetwork>> open(const MulticastOptions& options, std::uint64_t own_context);

  std::size_t packet_limit() const noexcept override { return spi::kMaxPacket; }
  spi::SentPackets send_to_groups(std::span<const std::byte> bytes) noexcept override;
  spi::SentPackets send_to(const spi::PeerAddress& to, std::span<const std::byte> bytes) noexcept override;
  PeerAuthorizer::Verdict authorize(const spi::PeerAddress& from) override;
  std::vector<pollfd> descriptors() const override;
  // Also handles changes of the interfaces: joins the groups on new ones, and leaves those that are gone.
  spi::Arrival receive(int fd, std::span<std::byte> buffer, spi::ReceivedPacket& received) override;
  std::string_view name() const noexcept override { return "udp"; }
  std::string text() const override;
  std::vector<std::string> interfaces() const override;

 private:
  struct Membership {
    std::size_t group = 0;
    Interface interface;
    friend bool operator==(const Membership&, const Membership&) = default;
  };
  using Memberships = std::vector<Membership>;

  UdpNetwork(MulticastOptions options, std::uint64_t own_context)
      : options_(std::move(options)), own_context_(own_context), authorizer_(options_.peers) {}
  Status start();
  void refresh();
  spi::SentPackets send_to_groups(std::span<const std::byte> bytes, const UniqueFd& from4,
                                  const UniqueFd& from6) const noexcept;
  Status open_group(const MulticastGroup& group);
  Status open_sender(bool ipv6, UniqueFd& sender) const;
  bool change_membership(const Membership& membership, bool join) noexcept;
  std::shared_ptr<const Memberships> memberships() const;

  const MulticastOptions options_;
  const std::uint64_t own_context_;
  PeerAuthorizer authorizer_;
  std::vector<UniqueFd> groups_;  // one for each of options_.groups
  UniqueFd sender4_;
  UniqueFd sender6_;
  UniqueFd watch_;
  UniqueFd retry_;  // a timer, for what refresh() could not do
  Backoff pause_{1'000'000'000, 64'000'000'000};
  mutable std::mutex mutex_;
  std::shared_ptr<const Memberships> memberships_ = std::make_shared<Memberships>();
};

}  // namespace ripc::internal::resolver
