// SPDX-License-Identifier: Apache-2.0
// How the ports join their groups, and join them again.
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/event_signal.hpp"
#include "transport/verbs/fabric_multicast/fabric_network.hpp"

namespace ripc::internal::verbs {

Status FabricNetwork::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return system_error(errno, "epoll_ctl", "raise fs.epoll.max_user_watches");
}

void FabricNetwork::join(Membership& membership) {
  remote::Endpoint own;
  (void)remote::Endpoint::parse(membership.port.ip, 0, own);
  if (membership.port.ethernet && own.family() != membership.group.family()) {
    const std::lock_guard lock(mutex_);
    membership.obstacle = std::string("RoCE needs an address of the group's kind, ") +
                          (own.family() == AF_INET6 ? "IPv4" : "IPv6") + ", on the interface";
    return;
  }
  const VerbsLibrary& library = channel_->library();
  const auto index = static_cast<std::uintptr_t>(&membership - memberships_.data());
  rdma_cm_id* raw = nullptr;
  if (library.create_id(channel_->get(), &raw, reinterpret_cast<void*>(index), RDMA_PS_UDP) != 0)
    return retry_later(membership, std::string("rdma_create_id: ") + std::strerror(errno));
  membership.id = std::make_shared<MulticastId>(channel_, raw);
  if (library.bind_addr(raw, const_cast<sockaddr*>(own.address())) != 0)
    return retry_later(membership, std::string("rdma_bind_addr: ") + std::strerror(errno));
  if (!membership.port.device->is_of(*raw))
    return retry_later(membership, membership.port.ip + " leads to another device now");
  if (!membership.id->join(membership.group))
    return retry_later(membership, std::string("rdma_join_multicast: ") + std::strerror(errno));
  const std::lock_guard lock(mutex_);
  membership.obstacle = "joining";
}

// Others may still be sending through the queue for a moment.
void FabricNetwork::leave(Membership& membership) noexcept {
  std::shared_ptr<GroupQueue> queue;
  {
    const std::lock_guard lock(mutex_);
    queue = std::move(membership.queue);
  }
  if (queue) (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, queue->fd(), nullptr);
  if (!membership.id) return;
  membership.id->leave();
  membership.id.reset();
}

void FabricNetwork::retry_later(Membership& membership, std::string why) {
  leave(membership);
  membership.retry_at = monotonic_now() + membership.pause.next();
  const std::lock_guard lock(mutex_);
  membership.obstacle = std::move(why);
}

void FabricNetwork::joined(Membership& membership, const rdma_ud_param& parameters) {
  JoinedGroup group{.address = parameters.ah_attr,
                    .queue_pair = parameters.qp_num,
                    .queue_key = parameters.qkey,
                    .world = membership.group.port()};
  group.address.grh.hop_limit = static_cast<std::uint8_t>(std::clamp(options_.hops, 1U, 255U));
  // Registering memory and attaching takes the kernel some milliseconds, during which packets of other networks would
  // wait.
  address_resolution_.run([this, index = static_cast<std::size_t>(&membership - memberships_.data()),
                           id = membership.id, port = membership.port, group] {
    Made made{.membership = index, .id = id, .queue = GroupQueue::create(port, group, options_.receives_own_packets)};
    {
      const std::lock_guard lock(mutex_);
      made_.push_back(std::move(made));
    }
    signal_event(made_event_.get());
  });
}

void FabricNetwork::adopt_made() {
  std::vector<Made> made;
  {
    const std::lock_guard lock(mutex_);
    made.swap(made_);
  }
  for (Made& item : made) {
    Membership& membership = memberships_[item.membership];
    // Meanwhile the group may have been left and joined again.
    if (membership.id == item.id && !membership.queue) adopt(membership, std::move(item.queue));
  }
  tell_members();
}

void FabricNetwork::adopt(Membership& membership, Result<std::shared_ptr<GroupQueue>> queue) {
  Status status = queue.ok() ? watch((*queue)->fd()) : queue.status();
  if (!status.ok()) return retry_later(membership, std::string(status.text()));
  (*queue)->arm();
  membership.pause.reset();
  has_joined_ = true;
  const std::lock_guard lock(mutex_);
  membership.queue = std::move(*queue);
  membership.obstacle.clear();
}

// librdmacm's. An event is given back before an id may end.
void FabricNetwork::handle_events() {
  rdma_cm_event* event = nullptr;
  bool has_changed = false;
  while (channel_->library().get_cm_event(channel_->get(), &event) == 0) {
    const rdma_cm_event copy = *event;
    const auto index = reinterpret_cast<std::uintptr_t>(event->id->context);
    (void)channel_->library().ack_cm_event(event);
    if (index < memberships_.size()) handle(memberships_[index], copy);
    has_changed = true;
  }
  if (has_changed) tell_members();
}

void FabricNetwork::handle(Membership& membership, const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      if (!membership.queue) joined(membership, event.param.ud);
      break;
    case RDMA_CM_EVENT_MULTICAST_ERROR:
      retry_later(membership, std::string("the group could not be joined: ") + std::strerror(std::abs(event.status)));
      break;
    case RDMA_CM_EVENT_ADDR_CHANGE:
      retry_later(membership, "its address has changed");
      break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL: {
      leave(membership);
      membership.retry_at = 0;
      const std::lock_guard lock(mutex_);
      membership.obstacle = "the device was removed";
      break;
    }
    default:
      break;
  }
}

void FabricNetwork::retry_due() {
  const Nanoseconds now = monotonic_now();
  for (Membership& membership : memberships_) {
    if (membership.retry_at == 0 || membership.retry_at > now) continue;
    membership.retry_at = 0;
    join(membership);
  }
}

void FabricNetwork::set_timer(bool at_once) noexcept {
  Nanoseconds due = 0;
  for (const Membership& membership : memberships_) {
    if (membership.retry_at != 0 && (due == 0 || membership.retry_at < due)) due = membership.retry_at;
  }
  if (at_once) due = 1;  // long ago
  itimerspec time{};
  time.it_value = to_timespec(due);
  (void)timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &time, nullptr);
}

void FabricNetwork::tell_members() {
  auto fresh = std::make_shared<Members>();
  const std::shared_ptr<const Members> former = members();
  for (std::size_t index = 0; index < memberships_.size(); ++index) {
    const std::shared_ptr<GroupQueue>& queue = memberships_[index].queue;
    const bool is_same = index < former->size() && (*former)[index].queue == queue;
    fresh->push_back(is_same ? (*former)[index] : Member{++last_number_, queue});
  }
  const std::lock_guard lock(mutex_);
  members_ = std::move(fresh);
}

std::shared_ptr<const FabricNetwork::Members> FabricNetwork::members() const {
  const std::lock_guard lock(mutex_);
  return members_;
}

}  // namespace ripc::internal::verbs
