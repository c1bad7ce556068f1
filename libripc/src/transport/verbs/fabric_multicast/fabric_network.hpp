// SPDX-License-Identifier: Apache-2.0
// The multicast resolver's packets as datagrams of RDMA devices. Each port has a queue pair in a multicast group. It
// joins through librdmacm, which asks the subnet manager on InfiniBand and sends IGMP on RoCE. Packets to a single
// context go to the queue pair from which its packet came.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "base/fork_guard.hpp"
#include "base/peer_authorizer.hpp"
#include "base/unique_fd.hpp"
#include "remote/session/endpoint.hpp"
#include "spi/multicast_network.hpp"
#include "transport/verbs/datagram/address_resolution.hpp"
#include "transport/verbs/device/connection_manager.hpp"
#include "transport/verbs/device/device_list.hpp"
#include "transport/verbs/device/multicast_id.hpp"
#include "transport/verbs/groups/group_queue.hpp"

namespace ripc::internal::verbs {

struct FabricNetworkOptions {
  // The groups, each with a port that keeps users of the same group apart; the port travels with each datagram. IPv4
  // groups are joined, and IPv6 groups only if there is no IPv4 group, because RoCE v2 has no IPv6 groups.
  std::vector<remote::Endpoint> groups;
  std::vector<std::string> interfaces;  // network interfaces; empty: all that belong to a device
  unsigned hops = 1;                    // one more than the routers that a datagram to the group may pass; at least 1
  PeerPolicy peers;                     // which users of this host are admitted
  bool receives_own_packets = false;    // what this network sent to the group comes back
};

class FabricNetwork final : public spi::MulticastNetwork {
 public:
  // Begins to join. It is no error if no port can be used, or not yet: text() says why, and what failed is tried again
  // after a while. RIPC_PERMISSION, RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
  static Result<std::unique_ptr<FabricNetwork>> open(std::shared_ptr<const DeviceList> devices,
                                                     const FabricNetworkOptions& options);
  ~FabricNetwork() override;

  std::size_t packet_limit() const noexcept override { return packet_limit_.load(std::memory_order_relaxed); }
  spi::SentPackets send_to_groups(std::span<const std::byte> bytes) noexcept override;
  spi::SentPackets send_to(const spi::PeerAddress& to, std::span<const std::byte> bytes) noexcept override;
  // A device does not identify the sending process, so packets from this host are refused unless everyone is admitted.
  PeerAuthorizer::Verdict authorize(const spi::PeerAddress& from) override;
  std::vector<pollfd> descriptors() const override;
  spi::Arrival receive(int fd, std::span<std::byte> buffer, spi::ReceivedPacket& received) override;
  std::string_view name() const noexcept override { return "fabric"; }
  std::string text() const override;
  std::vector<std::string> interfaces() const override;

  // For tests.
  std::vector<ibv_qp*> pairs() const;

 private:
  // One port that has joined one group, or is joining it.
  struct Membership {
    DevicePort port;  // without a device: this place is free
    remote::Endpoint group;
    std::string name;                              // the port and its network interface, for people
    std::shared_ptr<MulticastId> id;               // null: neither joined nor asked for
    std::shared_ptr<GroupQueue> queue;             // null: not joined
    std::string obstacle;                          // why it is not joined
    Nanoseconds retry_at = 0;                      // 0: never
    Backoff pause{1'000'000'000, 64'000'000'000};  // before the next attempt
  };
  struct Member {
    std::uint64_t number = 0;  // never reused, so that a peer of a queue that is gone is recognized
    std::shared_ptr<GroupQueue> queue;
  };
  using Members = std::vector<Member>;
  // A queue pair that was made for a membership, or why it could not be made.
  struct Made {
    std::size_t membership = 0;
    std::shared_ptr<MulticastId> id;
    Result<std::shared_ptr<GroupQueue>> queue;
  };
  // The contents of a PeerAddress.
  struct Peer {
    std::uint64_t member = 0;
    GroupPeer peer;
  };

  FabricNetwork(std::shared_ptr<const DeviceList> devices, FabricNetworkOptions options)
      : devices_(std::move(devices)), options_(std::move(options)), authorizer_(options_.peers) {}
  Status start();
  Status watch(int fd);
  void choose_ports();
  void listen_to_devices();
  Membership& place_for_one();
  void join_chosen();
  void look_at_devices();
  void handle_ready(int fd);
  bool take_packet(std::span<std::byte> buffer, spi::ReceivedPacket& received);

  // ---- Joining (multicast_joining.cpp) ----
  void join(Membership& membership);
  void leave(Membership& membership) noexcept;
  void retry_later(Membership& membership, std::string why);
  void joined(Membership& membership, const rdma_ud_param& parameters);
  void adopt_made();
  void adopt(Membership& membership, Result<std::shared_ptr<GroupQueue>> queue);
  void handle_events();
  void handle(Membership& membership, const rdma_cm_event& event);
  void retry_due();
  void set_timer(bool at_once) noexcept;
  void tell_members();
  std::shared_ptr<const Members> members() const;

  const std::shared_ptr<const DeviceList> devices_;
  const FabricNetworkOptions options_;
  PeerAuthorizer authorizer_;
  std::atomic<std::size_t> packet_limit_{kMostOfGroup};
  std::string no_port_;  // why there is none
  UniqueFd epoll_;
  UniqueFd timer_;
  UniqueFd made_event_;
  ForkGuard epoll_guard_;
  ForkGuard timer_guard_;
  ForkGuard made_guard_;
  std::shared_ptr<EventChannel> channel_;
  std::atomic<bool> has_news_{false};  // of the devices
  bool has_joined_ = false;            // a group, and has not reported it yet
  AddressResolution address_resolution_;
  DeviceList::ListenerId listener_ = 0;
  std::vector<std::pair<DevicePointer, AsyncEvents::ListenerId>> listeners_;  // of the devices

  // Owned by the receiving thread, which takes the lock to change what others may see.
  std::vector<Membership> memberships_;
  std::size_t next_ = 0;  // the membership whose turn it is to deliver, modulo their number
  unsigned packets_ = 0;  // since the events were last handled
  std::uint64_t last_number_ = 0;
  mutable std::mutex mutex_;
  std::vector<Made> made_;                                                // by the other thread, not yet looked at
  std::shared_ptr<const Members> members_ = std::make_shared<Members>();  // like memberships_, even without a queue
};

}  // namespace ripc::internal::verbs
