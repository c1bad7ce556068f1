// SPDX-License-Identifier: Apache-2.0
// Knows which ports of the devices work now, and reads the devices' asynchronous events in the responder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/event_loop.hpp"
#include "transport/verbs/device/async_events.hpp"
#include "transport/verbs/device/device_list.hpp"
#include "transport/verbs/device/uevent_monitor.hpp"

namespace ripc::internal::verbs {

// Responder only, but for is_up().
class PortMonitor {
 public:
  // Called from the loop.
  struct Hooks {
    // These addresses have begun or ceased to work: because their port or device has, or because it has other addresses
    // now.
    std::function<void(const std::vector<std::string>& ips, bool up)> changed;
    // A completion queue of this device has stopped. Its owner knows.
    std::function<void(const DevicePointer& device)> queue_lost;
    // The device was taken away, after `changed`.
    std::function<void(const DevicePointer& device)> gone;
    // New ports have been found.
    std::function<void()> come;
    // The port is to join its multicast groups again.
    std::function<void(const DevicePointer& device, std::uint8_t port)> join_again;
  };

  explicit PortMonitor(std::shared_ptr<const DeviceList> devices) : devices_(std::move(devices)) {}

  // Looks at all ports, and then listens to their devices, until stop(). Also before the loop runs.
  void start(EventLoop& loop, Hooks hooks);
  void stop() noexcept;

  // Any thread. Before start() every port is up.
  bool is_up(const DevicePort& port) const;

 private:
  // A device to whose events the monitor listens.
  struct Watched {
    DevicePointer device;
    AsyncEvents::ListenerId listener = 0;
  };
  void watch(const DevicePointer& device);
  void ignore(Watched& watched) noexcept;
  void on_event(const DevicePointer& device, Reaction reaction, std::uint8_t number);
  void check_ports(const Device& device, Reaction reaction, std::uint8_t number);
  void lose(const DevicePointer& device);
  void on_uevent(const Uevent& uevent);
  void look_for_devices();

  const std::shared_ptr<const DeviceList> devices_;
  EventLoop* loop_ = nullptr;
  Hooks hooks_;
  std::vector<Watched> watched_;
  std::unique_ptr<UeventMonitor> uevents_;  // null: the monitor does not learn of devices that come or go
  EventLoop::TimerId second_look_ = 0;
  std::shared_ptr<const bool> running_;  // for what is about to run in the loop
  mutable std::mutex mutex_;
  std::set<std::string> down_;  // IP addresses
};

}  // namespace ripc::internal::verbs
