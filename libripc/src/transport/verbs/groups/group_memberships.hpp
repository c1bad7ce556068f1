// SPDX-License-Identifier: Apache-2.0
// The network's multicast groups that stand for group IDs. librdmacm joins them: through the subnet manager on
// InfiniBand, through IGMP on RoCE.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "remote/session/endpoint.hpp"
#include "ripc/ripc.h"
#include "transport/verbs/device/connection_manager.hpp"
#include "transport/verbs/device/device_list.hpp"
#include "transport/verbs/device/multicast_id.hpp"
#include "transport/verbs/groups/group_queue.hpp"

namespace ripc::internal::verbs {

// The multicast address of a group ID. It is the same everywhere; several group IDs may share one address.
remote::Endpoint multicast_address_of(ripc_service_id group);

// One port that has joined one group, or is joining it. The port leaves when the last user releases this object.
class GroupMembership {
 public:
  explicit GroupMembership(DevicePort port, const remote::Endpoint& group) : port_(std::move(port)), group_(group) {}

  const DevicePort& port() const noexcept { return port_; }
  // Any thread. What librdmacm has reported; null while the group is not joined.
  std::shared_ptr<const JoinedGroup> joined() const {
    const std::lock_guard lock(mutex_);
    return joined_;
  }

 private:
  friend class GroupMemberships;
  void set_joined(std::shared_ptr<const JoinedGroup> joined) {
    const std::lock_guard lock(mutex_);
    joined_ = std::move(joined);
  }

  const DevicePort port_;
  const remote::Endpoint group_;
  // The responder's.
  std::unique_ptr<MulticastId> id_;  // null: neither joined nor asked for
  std::uint64_t number_ = 0;         // of the id
  Nanoseconds retry_at_ = 0;         // not before
  mutable std::mutex mutex_;
  std::shared_ptr<const JoinedGroup> joined_;
};
using MembershipPointer = std::shared_ptr<GroupMembership>;

// Responder only.
class GroupMemberships {
 public:
  // `joined` is called whenever a group has been joined.
  static Result<std::unique_ptr<GroupMemberships>> start(std::shared_ptr<const VerbsLibrary> library, EventLoop& loop,
                                                         std::function<void()> joined);
  ~GroupMemberships();
  GroupMemberships(const GroupMemberships&) = delete;
  GroupMemberships& operator=(const GroupMemberships&) = delete;

  // Begins to join, unless the port is in the group, is joining it, or failed to join a moment ago. Null: a port like
  // this cannot be in such a group.
  MembershipPointer join(const DevicePort& port, ripc_service_id group);
  // The network has forgotten that this port is in groups.
  void join_again(const Device& device, std::uint8_t port);
  // The device was taken away.
  void forget(const Device& device);

 private:
  GroupMemberships(std::shared_ptr<EventChannel> channel, EventLoop& loop, std::function<void()> joined)
      : channel_(std::move(channel)), loop_(loop), joined_(std::move(joined)) {}
  std::vector<MembershipPointer> of(const Device& device) const;
  void begin(const MembershipPointer& membership);
  void leave(GroupMembership& membership);
  void on_events();

  const std::shared_ptr<EventChannel> channel_;
  EventLoop& loop_;
  const std::function<void()> joined_;
  std::uint64_t next_number_ = 1;
  std::unordered_map<std::uint64_t, std::weak_ptr<GroupMembership>> by_number_;
};

}  // namespace ripc::internal::verbs
