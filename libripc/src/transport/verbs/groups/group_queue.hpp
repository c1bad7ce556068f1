// SPDX-License-Identifier: Apache-2.0
// A queue pair in a multicast group, on one port. It sends to the group and to single queue pairs, and receives what
// comes to either.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>

#include "base/clock.hpp"
#include "transport/verbs/datagram/datagram_sender.hpp"
#include "transport/verbs/datagram/grh.hpp"
#include "transport/verbs/device/device_list.hpp"
#include "transport/verbs/device/post_receives.hpp"
#include "transport/verbs/device/registrar.hpp"
#include "wire/session_control.hpp"

namespace ripc::internal::verbs {

// A group as librdmacm reported it when it was joined.
struct JoinedGroup {
  ibv_ah_attr address{};
  std::uint32_t queue_pair = 0;
  std::uint32_t queue_key = 0;
  // Keeps users of the same group apart; travels with each datagram as its immediate data.
  std::uint32_t world = 0;
};

// Subnet managers create groups for datagrams of this size, but do not report it when a group is joined.
inline constexpr std::size_t kMostOfGroup = 2048;

// The sender of a datagram.
struct GroupPeer {
  wire::session_control::Gid gid{};
  std::uint16_t lid = 0;  // on InfiniBand
  std::uint8_t service_level = 0;
  std::uint32_t queue_pair = 0;
};

struct GroupPacket {
  std::span<const std::byte> bytes;  // in the receiver's buffer
  GroupPeer from;
  bool to_group = false;
};

// Any thread, but for create().
class GroupQueue {
 public:
  // Makes a queue and attaches it to the group, which must have been joined on this port. receives_own_packets: what it
  // sends comes back, if the device supports that; otherwise its own packets are dropped. RIPC_NO_DESCRIPTORS,
  // RIPC_NO_MEMORY (the limit of locked memory, too), RIPC_SYSTEM.
  static Result<std::shared_ptr<GroupQueue>> create(const DevicePort& port, const JoinedGroup& group,
                                                    bool receives_own_packets);
  ~GroupQueue();

  // Never blocks. False: the datagram is larger than the port's MTU, or the device takes nothing now.
  bool send_to_group(std::span<const std::byte> bytes) noexcept;
  enum class Sending : std::uint8_t { sent, failed, no_handle };
  // Never blocks. no_handle: find_handle() must be called first, for the first time or again, because the address may
  // have moved to another machine.
  Sending send_to(const GroupPeer& peer, std::span<const std::byte> bytes, Nanoseconds now) noexcept;
  // May take a second if nobody has that address. Keeps the most recently used handles for a while.
  Status find_handle(const GroupPeer& peer, Nanoseconds now);

  // Receives the next datagram; drops datagrams larger than the buffer. False: there is none.
  bool receive(std::span<std::byte> buffer, GroupPacket& packet) noexcept;
  int fd() const noexcept { return queue_->fd(); }  // readable when something has come since arm()
  void arm() noexcept;
  // The device has lost one of the queue's completion queues, so nothing comes or goes any more.
  bool is_broken() const noexcept { return queue_->is_broken(); }

  // For tests.
  ibv_qp* pair() const noexcept { return queue_->pair(); }
  std::size_t handles() {
    const std::lock_guard lock(mutex_);
    return handles_.size();
  }
  static constexpr std::size_t kMostHandles = 256;
  static constexpr Nanoseconds kHandleAge = 60'000'000'000;

 private:
  static constexpr std::uint32_t kSends = 64;  // under way
  static constexpr std::uint32_t kReceives = 256;
  struct CachedHandle {
    AddressHandle handle;
    Nanoseconds found = 0;
    std::uint64_t last_use = 0;
  };
  using HandleKey = std::tuple<wire::session_control::Gid, std::uint16_t, std::uint8_t>;

  GroupQueue(DevicePort port, const JoinedGroup& group, bool receives_own_packets)
      : port_(std::move(port)), group_(group), receives_own_packets_(receives_own_packets) {}
  Status make();
  bool accept(const ibv_wc& completion, std::span<std::byte> buffer, GroupPacket& packet) noexcept;
  bool post_send_locked(const AddressHandle& handle, std::uint32_t queue_pair,
                        std::span<const std::byte> bytes) noexcept;
  void reap_locked() noexcept;
  void post_receives_locked(std::span<const std::uint32_t> slots) noexcept;
  void restart_locked() noexcept;
  std::byte* receive_slot(std::uint32_t slot) const noexcept { return memory_.get() + slot * (kGrhSize + mtu()); }
  std::byte* send_slot(std::uint64_t number) const noexcept {
    return memory_.get() + kReceives * (kGrhSize + mtu()) + (number % kSends) * mtu();
  }
  std::size_t mtu() const noexcept { return port_.mtu; }

  const DevicePort port_;
  const JoinedGroup group_;
  const bool receives_own_packets_;
  wire::session_control::Gid own_gid_{};
  wire::session_control::Gid group_gid_{};
  std::unique_ptr<DatagramQueue> queue_;
  std::unique_ptr<std::byte[]> memory_;  // of the receives, then of the sends
  RegionPointer region_;
  bool is_attached_ = false;

  std::mutex mutex_;
  AddressHandle group_handle_;
  std::map<HandleKey, CachedHandle> handles_;
  std::uint64_t uses_ = 0;                    // of handles
  std::array<AddressHandle, kSends> in_use_;  // by work requests that are under way
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  std::array<std::uint32_t, kReceiveBatch> used_{};  // receive buffers to be posted again
  std::size_t used_count_ = 0;
  bool has_failed_ = false;
};

}  // namespace ripc::internal::verbs
