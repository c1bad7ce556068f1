// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/port_watch.hpp"

namespace ripc::verbs {

void PortWatch::start(EventLoop& loop, Changed changed) {
  changed_ = std::move(changed);
  for (const DevicePointer& device : fabric_->devices()) {
    Result<std::unique_ptr<DeviceEvents>> events = DeviceEvents::open(
        device, loop,
        [this, device](std::uint8_t number, DeviceEvents::Change change) { on_event(device, number, change); });
    if (!events.ok()) continue;
    for (const FabricPort& port : fabric_->ports()) {
      const std::lock_guard lock(mutex_);
      if (port.device == device && !(*events)->is_up(port)) down_.insert(port.ip);
    }
    devices_.emplace(device.get(), std::move(*events));
  }
}

void PortWatch::stop() noexcept { devices_.clear(); }

bool PortWatch::is_up(const FabricPort& port) const {
  const std::lock_guard lock(mutex_);
  return !down_.contains(port.ip);
}

void PortWatch::on_event(const DevicePointer& device, std::uint8_t number, DeviceEvents::Change change) {
  // Another address of a port makes no difference to those that it had, nor does a port that is up already.
  std::vector<std::string> up;
  std::vector<std::string> down;
  for (const FabricPort& port : fabric_->ports()) {
    if (port.device != device || (number != 0 && port.number != number)) continue;
    const bool works = change != DeviceEvents::Change::down && devices_.at(device.get())->is_up(port);
    const std::lock_guard lock(mutex_);
    if (works && down_.erase(port.ip) != 0) up.push_back(port.ip);
    if (!works && down_.insert(port.ip).second) down.push_back(port.ip);
  }
  if (!down.empty()) changed_(down, false);
  if (!up.empty()) changed_(up, true);
}

}  // namespace ripc::verbs
