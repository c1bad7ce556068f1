// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/port_watch.hpp"

namespace ripc::verbs {

void PortWatch::start(EventLoop& loop, Changed changed) {
  changed_ = std::move(changed);
  for (const DevicePointer& device : fabric_->devices()) {
    Result<std::unique_ptr<DeviceEvents>> events = DeviceEvents::open(
        device, loop, [this, device](std::uint8_t number, bool up) { on_event(device, number, up); });
    if (!events.ok()) continue;
    for (const FabricPort& port : fabric_->ports()) {
      const std::lock_guard lock(mutex_);
      if (port.device == device && !(*events)->is_up(port.number)) down_.emplace(device.get(), port.number);
    }
    devices_.push_back(std::move(*events));
  }
}

void PortWatch::stop() noexcept { devices_.clear(); }

bool PortWatch::is_up(const FabricPort& port) const {
  const std::lock_guard lock(mutex_);
  return !down_.contains({port.device.get(), port.number});
}

void PortWatch::on_event(const DevicePointer& device, std::uint8_t number, bool up) {
  std::vector<std::string> ips;
  for (const FabricPort& port : fabric_->ports()) {
    if (port.device != device || (number != 0 && port.number != number)) continue;
    const std::lock_guard lock(mutex_);
    if (up) {
      down_.erase({device.get(), port.number});
    } else {
      down_.emplace(device.get(), port.number);
    }
    ips.push_back(port.ip);
  }
  if (!ips.empty()) changed_(ips, up);
}

}  // namespace ripc::verbs
