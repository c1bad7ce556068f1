// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/port_monitor.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

namespace ripc::internal::verbs {

namespace {

// librdmacm and the kernel's own users learn of a new device one after the other, so look a second time.
constexpr Nanoseconds kSecondLook = 1'000'000'000;

// Whether the device says now that the port works and is configured as when the devices were opened. Queue pairs and
// address handles depend on that.
bool works(const DevicePort& port) {
  const VerbsLibrary& library = *port.device->library;
  ibv_context* const context = port.device->context;
  ibv_port_attr attributes{};
  if (!library.read_port(context, port.number, attributes) || attributes.state != IBV_PORT_ACTIVE) return false;
  if (port.mtu == 0) return true;
  ibv_gid gid{};
  __be16 partition = 0;
  return attributes.lid == port.lid && library.query_gid(context, port.number, port.gid_index, &gid) == 0 &&
         std::memcmp(gid.raw, port.gid.raw, sizeof gid.raw) == 0 &&
         library.query_pkey(context, port.number, 0, &partition) == 0 && partition == port.partition;
}

}  // namespace

void PortMonitor::start(EventLoop& loop, Hooks hooks) {
  loop_ = &loop;
  hooks_ = std::move(hooks);
  running_ = std::make_shared<const bool>(true);
  for (const DevicePointer& device : devices_->devices()) watch(device);
  // Without uevents, removed devices report their removal themselves, if their drivers can.
  Result<std::unique_ptr<UeventMonitor>> devices =
      UeventMonitor::start(loop, [this](const Uevent& uevent) { on_uevent(uevent); });
  if (devices.ok()) uevents_ = std::move(*devices);
}

void PortMonitor::watch(const DevicePointer& device) {
  // Others may use the same device, but only one of them reads each event.
  const auto listen = [this, raw = device.get(), running = std::weak_ptr(running_)](Reaction reaction,
                                                                                    std::uint8_t number) {
    loop_->post([this, raw, running, reaction, number] {
      const auto found = running.expired() ? watched_.end() : std::ranges::find_if(watched_, [&](const Watched& one) {
        return one.device.get() == raw;
      });
      if (found != watched_.end()) on_event(found->device, reaction, number);
    });
  };
  watched_.push_back({.device = device, .listener = device->events.listen(listen)});
  (void)loop_->add(device->context->async_fd, EPOLLIN, [this, raw = device.get()](std::uint32_t) {
    if (!raw->events.read(*raw->library, raw->context)) loop_->remove(raw->context->async_fd);
  });
  for (const DevicePort& port : devices_->ports()) {
    if (port.device != device) continue;
    const bool is_up = works(port);
    const std::lock_guard lock(mutex_);
    if (is_up) {
      down_.erase(port.ip);
    } else {
      down_.insert(port.ip);
    }
  }
}

void PortMonitor::ignore(Watched& watched) noexcept {
  watched.device->events.listen_no_more(watched.listener);
  loop_->remove(watched.device->context->async_fd);
}

void PortMonitor::stop() noexcept {
  running_.reset();
  uevents_.reset();
  if (second_look_ != 0) loop_->cancel_timer(second_look_);
  second_look_ = 0;
  for (Watched& watched : watched_) ignore(watched);
  watched_.clear();
}

bool PortMonitor::is_up(const DevicePort& port) const {
  const std::lock_guard lock(mutex_);
  return !down_.contains(port.ip);
}

void PortMonitor::on_event(const DevicePointer& device, Reaction reaction, std::uint8_t number) {
  switch (reaction) {
    case Reaction::lose_queue:
      hooks_.queue_lost(device);
      break;
    case Reaction::join_again:
      hooks_.join_again(device, number);
      break;
    case Reaction::lose_device:
      lose(DevicePointer(device));
      break;
    default:
      check_ports(*device, reaction, number);
      break;
  }
}

void PortMonitor::check_ports(const Device& device, Reaction reaction, std::uint8_t number) {
  // Only changes count: a further address of a port does not affect its earlier ones, and a port that is already up is
  // not reported again.
  std::vector<std::string> up;
  std::vector<std::string> down;
  for (const DevicePort& port : devices_->ports()) {
    if (port.device.get() != &device || (number != 0 && port.number != number)) continue;
    const bool is_up = reaction == Reaction::look_at_port && works(port);
    const std::lock_guard lock(mutex_);
    if (is_up && down_.erase(port.ip) != 0) up.push_back(port.ip);
    if (!is_up && down_.insert(port.ip).second) down.push_back(port.ip);
  }
  if (!down.empty()) hooks_.changed(down, false);
  if (!up.empty()) hooks_.changed(up, true);
}

// ---- Devices that come and go --------------------------------------------------------------------------------

void PortMonitor::lose(const DevicePointer& device) {
  const auto watched = std::ranges::find_if(watched_, [&](const Watched& one) { return one.device == device; });
  if (watched == watched_.end()) return;
  check_ports(*device, Reaction::lose_device, 0);
  ignore(*watched);
  watched_.erase(watched);
  devices_->forget(*device);
  hooks_.gone(device);
}

void PortMonitor::on_uevent(const Uevent& uevent) {
  if (uevent.has_come) {
    look_for_devices();
    if (second_look_ != 0) loop_->cancel_timer(second_look_);
    second_look_ = loop_->add_timer(monotonic_now() + kSecondLook, [this] {
      second_look_ = 0;
      look_for_devices();
    });
    return;
  }
  for (const DevicePointer& device : devices_->devices()) {
    // Tell its other users too.
    ibv_async_event event{};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    if (uevent.name == device->context->device->dev_name) device->events.tell(event);
  }
}

void PortMonitor::look_for_devices() {
  if (!devices_->look_again()) return;
  for (const DevicePointer& device : devices_->devices()) {
    if (std::ranges::none_of(watched_, [&](const Watched& one) { return one.device == device; })) watch(device);
  }
  hooks_.come();
}

}  // namespace ripc::internal::verbs
