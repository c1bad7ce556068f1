// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/groups/group_memberships.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <string>

namespace ripc::internal::verbs {

namespace {

// The organization-local scope (RFC 2365): 239.192.0.0/14.
constexpr unsigned kScopeBits = 18;
// The pause after a group could not be joined, or was lost.
constexpr Nanoseconds kJoinPause = 60'000'000'000;
// One more than the routers that a datagram to the group may pass.
constexpr std::uint8_t kGroupHops = 1;

}  // namespace

remote::Endpoint multicast_address_of(ripc_service_id group) {
  const auto within = static_cast<std::uint32_t>((group * 0x9e3779b97f4a7c15u) >> (64 - kScopeBits));
  remote::Endpoint endpoint;
  (void)remote::Endpoint::parse("239." + std::to_string(192 + (within >> 16)) + "." +
                                    std::to_string(within >> 8 & 255) + "." + std::to_string(within & 255),
                                0, endpoint);
  return endpoint;
}

Result<std::unique_ptr<GroupMemberships>> GroupMemberships::start(std::shared_ptr<const VerbsLibrary> library,
                                                                  EventLoop& loop, std::function<void()> joined) {
  Result<std::shared_ptr<EventChannel>> channel = EventChannel::open(std::move(library));
  if (!channel.ok()) return channel.status();
  std::unique_ptr<GroupMemberships> memberships(new GroupMemberships(std::move(*channel), loop, std::move(joined)));
  Status status = loop.add(memberships->channel_->get()->fd, EPOLLIN,
                           [raw = memberships.get()](std::uint32_t) { raw->on_events(); });
  if (!status.ok()) return status;
  return memberships;
}

GroupMemberships::~GroupMemberships() { loop_.remove(channel_->get()->fd); }

MembershipPointer GroupMemberships::join(const DevicePort& port, ripc_service_id group) {
  remote::Endpoint own;
  // RoCE v2 has no IPv6 groups, and a port without an IPv4 address has no IPv4 groups.
  if (port.mtu == 0 || !remote::Endpoint::parse(port.ip, 0, own) || own.family() != AF_INET) return nullptr;
  const remote::Endpoint address = multicast_address_of(group);
  std::erase_if(by_number_, [](const auto& entry) { return entry.second.expired(); });
  MembershipPointer membership;
  for (const auto& [number, weak] : by_number_) {
    const MembershipPointer known = weak.lock();
    // Users of a device that was removed may still hold theirs.
    if (known && known->port().device == port.device && known->port().ip == port.ip && known->group_.same_ip(address))
      membership = known;
  }
  if (!membership) membership = std::make_shared<GroupMembership>(port, address);
  if (!membership->id_ && monotonic_now() >= membership->retry_at_) begin(membership);
  return membership;
}

void GroupMemberships::begin(const MembershipPointer& membership) {
  const VerbsLibrary& library = channel_->library();
  by_number_.erase(membership->number_);
  membership->number_ = next_number_++;
  membership->retry_at_ = monotonic_now() + kJoinPause;
  by_number_[membership->number_] = membership;
  rdma_cm_id* raw = nullptr;
  if (library.create_id(channel_->get(), &raw, reinterpret_cast<void*>(membership->number_), RDMA_PS_UDP) != 0) return;
  membership->id_ = std::make_unique<MulticastId>(channel_, raw);
  remote::Endpoint own;
  (void)remote::Endpoint::parse(membership->port_.ip, 0, own);
  if (library.bind_addr(raw, const_cast<sockaddr*>(own.address())) != 0 || !membership->port_.device->is_of(*raw) ||
      !membership->id_->join(membership->group_))
    leave(*membership);
}

std::vector<MembershipPointer> GroupMemberships::of(const Device& device) const {
  std::vector<MembershipPointer> memberships;
  for (const auto& [number, weak] : by_number_) {
    MembershipPointer known = weak.lock();
    if (known && known->number_ == number && known->port_.device.get() == &device)
      memberships.push_back(std::move(known));
  }
  return memberships;
}

void GroupMemberships::join_again(const Device& device, std::uint8_t port) {
  for (const MembershipPointer& membership : of(device)) {
    if (membership->port_.number != port) continue;
    leave(*membership);
    begin(membership);
  }
}

void GroupMemberships::forget(const Device& device) {
  for (const MembershipPointer& membership : of(device)) leave(*membership);
}

void GroupMemberships::leave(GroupMembership& membership) {
  membership.set_joined(nullptr);
  membership.id_.reset();
  membership.retry_at_ = monotonic_now() + kJoinPause;
}

// An event is given back before its id may end.
void GroupMemberships::on_events() {
  rdma_cm_event* event = nullptr;
  while (channel_->library().get_cm_event(channel_->get(), &event) == 0) {
    const rdma_cm_event copy = *event;
    const auto number = reinterpret_cast<std::uintptr_t>(event->id->context);
    (void)channel_->library().ack_cm_event(event);
    const auto found = by_number_.find(number);
    const MembershipPointer membership = found == by_number_.end() ? nullptr : found->second.lock();
    if (!membership || membership->number_ != number) continue;
    if (copy.event == RDMA_CM_EVENT_MULTICAST_JOIN) {
      JoinedGroup group{
          .address = copy.param.ud.ah_attr, .queue_pair = copy.param.ud.qp_num, .queue_key = copy.param.ud.qkey};
      group.address.grh.hop_limit = kGroupHops;
      membership->set_joined(std::make_shared<const JoinedGroup>(group));
      joined_();
    } else if (copy.event == RDMA_CM_EVENT_MULTICAST_ERROR || copy.event == RDMA_CM_EVENT_ADDR_CHANGE ||
               copy.event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
      leave(*membership);
    }
  }
}

}  // namespace ripc::internal::verbs
