// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/fabric_multicast/fabric_network.hpp"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "base/event_signal.hpp"
#include "remote/session/rails.hpp"

namespace ripc::internal::verbs {

namespace {

constexpr std::size_t kReadyAtOnce = 16;
// While packets keep coming, events of the devices are handled after so many of them.
constexpr unsigned kPacketsPerLook = 64;
constexpr const char* kNotJoined = "not joined yet";

template <typename Item>
bool contains(const std::vector<Item>& list, const Item& item) {
  return std::ranges::find(list, item) != list.end();
}

}  // namespace

// ---- Begin and end -------------------------------------------------------------------------------------------

Result<std::unique_ptr<FabricNetwork>> FabricNetwork::open(std::shared_ptr<const DeviceList> devices,
                                                           const FabricNetworkOptions& options) {
  std::unique_ptr<FabricNetwork> network(new FabricNetwork(std::move(devices), options));
  if (Status status = network->start(); !status.ok()) return status;
  return network;
}

Status FabricNetwork::start() {
  epoll_ = ForkGuard::open(epoll_guard_, [] { return epoll_create1(EPOLL_CLOEXEC); });
  if (!epoll_) return system_error(errno, "epoll_create1", "raise `ulimit -n`");
  timer_ = ForkGuard::open(timer_guard_, [] { return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK); });
  if (!timer_) return system_error(errno, "timerfd_create", "raise `ulimit -n`");
  if (Status status = EventChannel::open(devices_->library()).move_to(channel_); !status.ok()) return status;
  made_event_ = ForkGuard::open(made_guard_, [] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (!made_event_) return system_error(errno, "eventfd", "raise `ulimit -n`");
  for (const int fd : {timer_.get(), made_event_.get(), channel_->get()->fd}) {
    if (Status status = watch(fd); !status.ok()) return status;
  }
  if (Status status = address_resolution_.start(); !status.ok()) return status;
  choose_ports();
  listen_to_devices();
  listener_ = devices_->listen([this] {
    has_news_.store(true, std::memory_order_release);
    signal_event(made_event_.get());
  });
  join_chosen();
  tell_members();
  set_timer(false);
  return {};
}

FabricNetwork::~FabricNetwork() {
  if (listener_ != 0) devices_->ignore(listener_);
  for (const auto& [device, id] : listeners_) device->events.listen_no_more(id);
  address_resolution_.stop();
  for (Membership& membership : memberships_) leave(membership);
  epoll_guard_.close(epoll_);
  timer_guard_.close(timer_);
  made_guard_.close(made_event_);
}

// One address of each network interface is enough, and IPv4 groups need one of IPv4.
void FabricNetwork::choose_ports() {
  std::vector<remote::Endpoint> groups;
  for (const int family : {AF_INET, AF_INET6}) {
    if (!groups.empty()) break;
    std::ranges::copy_if(options_.groups, std::back_inserter(groups),
                         [&](const remote::Endpoint& group) { return group.family() == family; });
  }
  std::vector<std::pair<const DevicePort*, std::string>> chosen;
  const std::vector<DevicePort> ports = devices_->ports();
  for (const DevicePort& port : ports) {
    remote::Endpoint address;
    if (!remote::Endpoint::parse(port.ip, 0, address)) continue;
    const std::string interface = remote::interface_of(address);
    if (!options_.interfaces.empty() && !contains(options_.interfaces, interface)) continue;
    if (port.mtu == 0) {
      const std::lock_guard lock(mutex_);
      if (no_port_.find(port.device->name) == std::string::npos)
        no_port_ += (no_port_.empty() ? "" : ", ") + port.device->name + " has no datagrams";
      continue;
    }
    const bool fits =
        std::ranges::any_of(groups, [&](const remote::Endpoint& group) { return group.family() == address.family(); });
    const auto same = std::ranges::find_if(chosen, [&](const auto& other) {
      return other.first->device == port.device && other.first->number == port.number && other.second == interface;
    });
    if (same == chosen.end()) {
      chosen.emplace_back(&port, interface);
    } else if (fits && (same->first->ip.find(':') != std::string::npos) != (port.ip.find(':') != std::string::npos)) {
      same->first = &port;
    }
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [port, interface] : chosen) {
    const std::string name = port->device->name + ":" + std::to_string(port->number) + " (" + interface + ")";
    const bool is_known = std::ranges::any_of(memberships_, [&, &device = port->device](const auto& one) {
      return one.port.device == device && one.name == name;
    });
    if (is_known) continue;
    packet_limit_ = std::min<std::size_t>(packet_limit_, port->mtu);
    for (const remote::Endpoint& group : groups)
      place_for_one() = {.port = *port, .group = group, .name = name, .id = {}, .queue = {}, .obstacle = kNotJoined};
  }
  if (chosen.empty() && no_port_.empty()) no_port_ = "no device has one of these interfaces";
}

// Places keep their numbers, because operations under way refer to them by number.
FabricNetwork::Membership& FabricNetwork::place_for_one() {
  const auto free =
      std::ranges::find_if(memberships_, [](const Membership& one) { return one.port.device == nullptr; });
  return free == memberships_.end() ? memberships_.emplace_back() : *free;
}

// The responder reads the events of the devices.
void FabricNetwork::listen_to_devices() {
  for (const Membership& membership : memberships_) {
    const DevicePointer& device = membership.port.device;
    if (!device || std::ranges::any_of(listeners_, [&](const auto& known) { return known.first == device; })) continue;
    listeners_.emplace_back(device, device->events.listen([this](Reaction reaction, std::uint8_t) {
      if (reaction != Reaction::lose_queue) return;
      has_news_.store(true, std::memory_order_release);
      signal_event(made_event_.get());
    }));
  }
}

// Makes stopped queues anew, releases removed devices, and joins the groups on new ones.
void FabricNetwork::look_at_devices() {
  const std::vector<DevicePointer> present = devices_->devices();
  std::erase_if(listeners_, [&](const auto& known) {
    if (contains(present, known.first)) return false;
    known.first->events.listen_no_more(known.second);
    return true;
  });
  for (Membership& membership : memberships_) {
    if (!membership.port.device) continue;
    if (!contains(present, membership.port.device)) {
      leave(membership);
      const std::lock_guard lock(mutex_);
      membership.port.device.reset();
      membership.retry_at = 0;
      membership.obstacle = "the device was removed";
    } else if (membership.queue && membership.queue->is_broken()) {
      retry_later(membership, "one of its queues has stopped with an error: see dmesg");
    }
  }
  choose_ports();
  listen_to_devices();
  join_chosen();
}

void FabricNetwork::join_chosen() {
  for (Membership& membership : memberships_) {
    if (membership.obstacle == kNotJoined) join(membership);
  }
}

// ---- Packets -------------------------------------------------------------------------------------------------

spi::SentPackets FabricNetwork::send_to_groups(std::span<const std::byte> bytes) noexcept {
  spi::SentPackets sent{.failures = address_resolution_.take_failures()};
  const std::shared_ptr<const Members> current = members();
  for (const Member& member : *current) {
    if (!member.queue) continue;
    if (member.queue->send_to_group(bytes)) {
      ++sent.packets;
      sent.bytes += bytes.size();
    } else {
      ++sent.failures;
    }
  }
  return sent;
}

spi::SentPackets FabricNetwork::send_to(const spi::PeerAddress& to, std::span<const std::byte> bytes) noexcept {
  const auto peer = to.as<Peer>();
  const std::shared_ptr<const Members> current = members();
  const auto found = std::ranges::find_if(*current, [&](const Member& member) { return member.number == peer.member; });
  if (found == current->end() || !found->queue) return {0, 0, 1};
  GroupQueue::Sending sending = found->queue->send_to(peer.peer, bytes, monotonic_now());
  try {
    if (sending == GroupQueue::Sending::no_handle && address_resolution_.send(found->queue, peer.peer, bytes))
      sending = GroupQueue::Sending::sent;
  } catch (const std::bad_alloc&) {
    // The packet is lost, as packets may be.
  }
  if (sending == GroupQueue::Sending::sent) return {1, bytes.size(), 0};
  return {0, 0, 1};
}

PeerAuthorizer::Verdict FabricNetwork::authorize(const spi::PeerAddress& from) {
  const GroupPeer sender = from.as<Peer>().peer;
  const std::vector<DevicePort> ports = devices_->ports();
  const bool is_ours = std::ranges::any_of(ports, [&](const DevicePort& port) {
    return std::memcmp(port.gid.raw, sender.gid.data(), sender.gid.size()) == 0 ||
           (sender.lid != 0 && sender.lid == port.lid);
  });
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  std::memcpy(&address.sin6_addr, sender.gid.data(), sender.gid.size());
  // On Ethernet any address of this host may be the source, but no honest sender uses a link-local one.
  const bool is_hidden = sender.lid == 0 && IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr);
  return authorizer_.authorize_device_sender(is_ours || is_hidden ? nullptr
                                                                  : reinterpret_cast<const sockaddr*>(&address));
}

std::vector<pollfd> FabricNetwork::descriptors() const { return {{epoll_.get(), POLLIN, 0}}; }

// The descriptor of a queue stays readable until arm(), so what is left in it will be read.
bool FabricNetwork::take_packet(std::span<std::byte> buffer, spi::ReceivedPacket& received) {
  for (std::size_t count = memberships_.size(); count != 0; --count) {
    const std::size_t index = next_++ % memberships_.size();
    Membership& membership = memberships_[index];
    GroupPacket packet;
    if (!membership.queue || !membership.queue->receive(buffer, packet)) continue;
    received.bytes = packet.bytes;
    received.to_group = packet.to_group;
    received.interface = membership.name;
    received.from = spi::PeerAddress::of(Peer{.member = (*members())[index].number, .peer = packet.from});
    return true;
  }
  return false;
}

void FabricNetwork::handle_ready(int fd) {
  if (fd == timer_.get()) {
    clear_event(fd);
    retry_due();
    set_timer(false);
  } else if (fd == made_event_.get()) {
    clear_event(fd);
    if (has_news_.exchange(false, std::memory_order_acquire)) look_at_devices();
    adopt_made();
    set_timer(false);
  } else if (fd == channel_->get()->fd) {
    handle_events();
    set_timer(false);
  } else {
    for (const Membership& membership : memberships_) {
      if (membership.queue && membership.queue->fd() == fd) membership.queue->arm();
    }
  }
}

spi::Arrival FabricNetwork::receive(int, std::span<std::byte> buffer, spi::ReceivedPacket& received) {
  if (++packets_ < kPacketsPerLook && take_packet(buffer, received)) return spi::Arrival::packet;
  packets_ = 0;
  std::array<epoll_event, kReadyAtOnce> ready{};
  const int count = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int index = 0; index < count; ++index) handle_ready(ready[static_cast<std::size_t>(index)].data.fd);
  if (take_packet(buffer, received)) {
    // Packets from before arm() no longer make the descriptor readable, so the timer must do it.
    set_timer(true);
    return spi::Arrival::packet;
  }
  return std::exchange(has_joined_, false) ? spi::Arrival::joined : spi::Arrival::nothing;
}

// ---- For messages --------------------------------------------------------------------------------------------

std::string FabricNetwork::text() const {
  std::vector<std::string> groups;
  std::string there;
  std::string elsewhere;
  {
    const std::lock_guard lock(mutex_);
    for (const Membership& membership : memberships_) {
      if (std::string group = membership.group.text(); !contains(groups, group)) groups.push_back(std::move(group));
      if (membership.queue) {
        if (there.find(membership.name) == std::string::npos) there += (there.empty() ? "" : ", ") + membership.name;
      } else {
        elsewhere += (elsewhere.empty() ? "" : ", ") + membership.name + ": " + membership.obstacle;
      }
    }
    if (elsewhere.empty() && there.empty()) elsewhere = no_port_;
  }
  std::string text = "the fabric";
  for (const std::string& group : groups) text += (&group == groups.data() ? ", " : " and ") + group;
  text += " on " + (there.empty() ? "no port" : there);
  return elsewhere.empty() ? text : text + " (" + elsewhere + ")";
}

std::vector<std::string> FabricNetwork::interfaces() const {
  std::vector<std::string> names;
  const std::lock_guard lock(mutex_);
  for (const Membership& membership : memberships_) {
    if (membership.queue && !contains(names, membership.name)) names.push_back(membership.name);
  }
  return names;
}

std::vector<ibv_qp*> FabricNetwork::pairs() const {
  std::vector<ibv_qp*> pairs;
  const std::shared_ptr<const Members> current = members();
  for (const Member& member : *current) {
    if (member.queue) pairs.push_back(member.queue->pair());
  }
  return pairs;
}

}  // namespace ripc::internal::verbs
