// SPDX-License-Identifier: Apache-2.0
// The receive side of one service. It has a queue pair for datagrams on each device port by which peers reach it, made
// when the first peer comes. If peers ask for it, there is also a queue pair for multicast groups. It also has the UDP
// links of peers whose devices have no datagrams.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "remote/link/replay_window.hpp"
#include "remote/link/udp_receiver.hpp"
#include "transport/verbs/datagram/datagram_channel.hpp"
#include "transport/verbs/datagram/datagram_sender.hpp"
#include "transport/verbs/groups/group_memberships.hpp"

namespace ripc::internal::verbs {

class VerbsPort final : public remote::LinkPort {
 public:
  // Makes this machine a member of a multicast group on the port with this address. Null: impossible.
  using Join = std::function<MembershipPointer(const std::string& local, ripc_service_id group)>;

  // Parameters as for remote::LinkPort, and as for remote::UdpReceiver for links over UDP.
  VerbsPort(const spi::PortOptions& options, EventSet& events, EventLoop& loop, std::size_t receive_buffer, Join join,
            std::function<void(LinkPort&)> closed)
      : LinkPort(options, wire::datagram::kMaxPacket, events, loop, std::move(closed)),
        join_(std::move(join)),
        udp_(*this, receive_buffer) {}
  ~VerbsPort() override;

  std::size_t poll(spi::PacketSink& sink, std::size_t budget) noexcept override;
  bool arm(bool on) noexcept override;
  remote::UdpReceiver& udp() noexcept override { return udp_; }

  // ---- For the transport, in the responder ----
  struct Accepted {
    std::shared_ptr<DatagramSource> source;
    DatagramAddress address;
    std::uint32_t packet_limit = 0;
  };
  // Accepts a link at the port of this sender. RIPC_LIMIT: the device's queue has no room for one more sender.
  Result<Accepted> accept(remote::LinkSource::Parts parts, std::shared_ptr<RdmaBulk> bulk,
                          const std::shared_ptr<Registrar>& registrar, DatagramSource::AttachmentPointer attachment);
  // The same for a link that was accepted at another port and comes to this one from now on. It leaves its groups. If
  // there is no room, it stays where it was.
  Result<Accepted> move(const remote::LinkSource& source, const std::shared_ptr<Registrar>& registrar,
                        DatagramSource::AttachmentPointer attachment);
  // Passes on a datagram of a source that came by the source's control connection. The source no longer uses a device,
  // so it leaves its groups and buffers. Throws std::bad_alloc.
  void pass(DatagramSource& source, spi::Bytes datagram);
  // Once the group is joined, what comes to the multicast group with the token counts as coming by this source's link.
  // If there is no room for that, it never does.
  void join_group(const std::shared_ptr<DatagramSource>& source, std::uint64_t token, ripc_service_id group);
  void leave_group(const remote::LinkSource& source, std::uint64_t token) noexcept;
  // Groups have been joined.
  void attach_joined();
  // Gives up the queues on this device, or only the broken ones, so that links opened from now on get other queues. The
  // caller ends the links that used the queues. Returns the addresses to which those links came.
  std::vector<std::string> give_up(const Device& device, bool only_broken);
  // The queue pairs for datagrams, and the addresses of those that serve links; for tests.
  std::vector<ibv_qp*> pairs();
  std::vector<DatagramAddress> addresses();
  // The rounds of senders to groups that its links are in; for tests.
  std::size_t group_joins() {
    const std::lock_guard lock(mutex_);
    return group_joins_.size();
  }

 private:
  static constexpr std::size_t kBatch = 16;
  // Buffers in addition to those granted. Probes and greetings need no credit, others may send to the same group, and
  // buffers that were read are posted again only in batches.
  static constexpr std::uint32_t kReserve = 128;

  struct Buffers;
  // A receive buffer; its address is the number of its work request.
  struct Slot {
    std::byte* memory;
    std::uint32_t local_key;
    Buffers* of;
  };
  // A group of slots.
  struct Chunk {
    std::unique_ptr<std::byte[]> memory;
    RegionPointer region;
    std::vector<Slot> slots;
  };
  // A queue pair with its buffers.
  struct Buffers {
    std::unique_ptr<DatagramQueue> queue;
    bool of_groups = false;
    // Under mutex_.
    std::deque<Chunk> chunks;
    std::uint32_t slots = 0;      // posted or with the receiver
    std::uint32_t committed = 0;  // to sources
    // The receiver's.
    std::vector<Slot*> used;  // to be posted again; has room for all that a look takes
  };
  // A queue pair that is in a multicast group, for as long as this is there.
  struct Attachment {
    Attachment(const VerbsLibrary& through, ibv_qp* attached, const ibv_gid& group, std::uint16_t group_lid) noexcept
        : library(through), pair(attached), gid(group), lid(group_lid) {}
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;
    ~Attachment() { (void)library.detach_mcast(pair, &gid, lid); }

    const VerbsLibrary& library;
    ibv_qp* const pair;
    const ibv_gid gid;
    const std::uint16_t lid;
  };
  // One port of a device.
  struct Receiver {
    // Whether any existing queue is broken.
    bool is_broken() const noexcept { return own.queue->is_broken() || (groups.queue && groups.queue->is_broken()); }
    bool take_stopped() const noexcept {
      const bool own_stopped = own.queue->take_stopped();
      return (groups.queue && groups.queue->take_stopped()) || own_stopped;
    }

    DevicePort port;
    std::shared_ptr<Registrar> registrar;
    std::uint32_t depth = 0;  // of the completion queue
    std::size_t stride = 0;
    Buffers own;
    Buffers groups;  // made when a peer asks for it; completes in the queue of `own`
    // Under mutex_.
    std::uint32_t groups_key = 0;
    std::vector<std::unique_ptr<Attachment>> attachments;
    bool is_given_up = false;  // destroyed with the last of its sources
    bool is_left = false;      // links have moved away, and their last datagrams may be here
    // The receiver's.
    bool comes_first = false;  // read first until empty: links that were here are elsewhere now
    std::array<ibv_wc, kBatch> batch{};
    std::size_t next = 0, count = 0;
    bool offered = false;  // the next completion was already looked at
    bool failed = false;   // a queue pair has stopped with an error
  };
  // A token with which a peer sends to a multicast group, for one of its links.
  struct GroupJoin {
    std::shared_ptr<DatagramSource> source;
    std::uint64_t token;
    MembershipPointer membership;
    bool is_attached = false;       // under mutex_
    bool is_over = false;           // under mutex_: removed when all that had come is taken
    ibv_gid gid{};                  // under mutex_: the group's, once attached
    remote::ReplayWindow window{};  // the receiver's
  };
  using GroupJoinPointer = std::shared_ptr<GroupJoin>;
  // Where a source's datagrams arrive.
  struct Place {
    std::shared_ptr<DatagramSource> source;
    Receiver* receiver;  // null: they come by the control connection only
    std::uint32_t budget;
    DatagramSource::AttachmentPointer attachment;                 // null if `receiver` is null
    std::optional<DatagramSource::Origin> former = std::nullopt;  // before the last move
  };
  // The source and join that a datagram belongs to.
  struct Sender {
    std::shared_ptr<DatagramSource> source;
    DatagramSource::Origin origin;
    GroupJoinPointer join = nullptr;  // null: it came by the link itself
    bool is_former = false;           // the datagram has the former origin
  };

  // What the receiving thread has read of all the above.
  struct Known {
    std::vector<Receiver*> receivers;
    std::unordered_map<std::uint64_t, Sender> by_token;
    bool some_are_over = false;  // joins
    std::vector<std::shared_ptr<DatagramSource>> dead_sources;
    std::vector<std::shared_ptr<DatagramSource>> streamed;  // sources whose datagrams come by control connections
  };

  Result<Receiver*> receiver_for(const DevicePort& port, const std::shared_ptr<Registrar>& registrar);
  static Status commit(Receiver& receiver, std::uint32_t budget);
  static Accepted accepted(const Receiver& receiver, std::shared_ptr<DatagramSource> source,
                           const DatagramSource::Attachment& attachment) noexcept;
  static Status add_slots(const Receiver& receiver, Buffers& buffers, std::uint32_t count);
  static void post(const Receiver& receiver, Buffers& buffers, std::vector<Slot*>& slots) noexcept;
  static void post_used(Receiver& receiver, bool all) noexcept;
  bool is_own(const Sender& sender, std::span<std::byte> datagram) noexcept;
  const Sender* sender_of(const Slot& slot, const ibv_wc& completion, spi::Bytes text) noexcept;
  void attach_joined_locked();
  void follow_locked(const GroupJoin& join);
  bool attach_locked(GroupJoin& join);
  static Status open_groups(Receiver& receiver, std::uint32_t key);
  bool has_joined_locked(const remote::LinkSource& source) const noexcept;
  std::vector<GroupJoinPointer> forget_locked(const std::function<bool(const GroupJoin&)>& goes);
  std::vector<GroupJoinPointer> leave_locked(Place& place);
  std::uint32_t budget_locked(const Receiver& receiver) const noexcept;
  bool refresh() noexcept;
  bool is_over_locked(const Receiver& receiver) const noexcept;
  void drop_given_up_locked() noexcept;
  std::size_t poll_receiver(Receiver& receiver, spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept;
  std::size_t poll_backlogs(spi::PacketSink& sink, std::size_t budget, bool& stop) noexcept;
  void settle(DatagramSource* source) noexcept;
  void restart(Receiver& receiver) noexcept;
  void retire_sources(spi::PacketSink& sink) noexcept;
  void hold(const std::shared_ptr<DatagramSource>& source, spi::Bytes packet) noexcept;
  void take_kept(const std::shared_ptr<DatagramSource>& source) noexcept;

  const Join join_;
  remote::UdpReceiver udp_;                                  // the links of peers whose devices have no datagrams
  std::deque<std::unique_ptr<Receiver>> receivers_;          // under mutex_
  std::unordered_map<const remote::LinkSource*, Place> at_;  // likewise
  std::vector<GroupJoinPointer> group_joins_;                // likewise

  // The receiving thread's own.
  std::uint64_t seen_version_ = 0;
  Known known_;  // as of that version, or of an earlier one while there is no memory
  std::vector<std::shared_ptr<DatagramSource>> blocked_;  // sources that have a backlog
};

}  // namespace ripc::internal::verbs
