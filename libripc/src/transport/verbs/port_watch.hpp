// SPDX-License-Identifier: Apache-2.0
// Which ports of the devices work now.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transport/verbs/device_events.hpp"
#include "transport/verbs/fabric.hpp"

namespace ripc::verbs {

class PortWatch {
 public:
  // The addresses that have begun or ceased to work: with their port, or because it has others now. From the loop.
  using Changed = std::function<void(const std::vector<std::string>& ips, bool up)>;

  explicit PortWatch(std::shared_ptr<const Fabric> fabric) : fabric_(std::move(fabric)) {}

  // Looks at all ports, and then listens to their devices, until stop(). A device that cannot be listened to is taken
  // to work. Responder, or before it runs.
  void start(EventLoop& loop, Changed changed);
  void stop() noexcept;

  // Any thread. Before start() every port is up.
  bool is_up(const FabricPort& port) const;

 private:
  void on_event(const DevicePointer& device, std::uint8_t number, DeviceEvents::Change change);

  const std::shared_ptr<const Fabric> fabric_;
  Changed changed_;
  std::map<const Device*, std::unique_ptr<DeviceEvents>> devices_;
  mutable std::mutex mutex_;
  std::set<std::string> down_;  // IP addresses
};

}  // namespace ripc::verbs
