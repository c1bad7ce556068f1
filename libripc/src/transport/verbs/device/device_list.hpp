// SPDX-License-Identifier: Apache-2.0
// The RDMA devices that this context uses, and which IP address leads to which device, according to librdmacm.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fork_guard.hpp"
#include "base/status.hpp"
#include "remote/session/endpoint.hpp"
#include "transport/verbs/device/async_events.hpp"
#include "transport/verbs/device/verbs_library.hpp"

namespace ripc::internal::verbs {

// One device, opened for this object alone. All users in the process share librdmacm's own context, and would take each
// other's events. Immutable; any thread.
struct Device {
  ~Device();

  // Whether librdmacm has found this device for the id.
  bool is_of(const rdma_cm_id& id) const noexcept { return id.verbs != nullptr && id.verbs->device == context->device; }

  std::shared_ptr<const VerbsLibrary> library;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_device_attr attributes{};
  std::string name;
  bool iwarp = false;
  bool windows = false;                          // has type 2 memory windows
  bool narrow_windows = false;                   // and they open nothing beyond their range
  unsigned invalidated_flags = IBV_WC_WITH_INV;  // any of them: the message has invalidated a window
  std::uint8_t read_depth = 1;                   // RDMA reads under way on one connection
  std::uint32_t max_message = 0;                 // bytes of one RDMA operation
  mutable AsyncEvents events;
  mutable std::atomic<bool> is_gone{false};  // it was removed
  // A forked child keeps none of the device's descriptors, so the queues end with this process.
  ForkGuard command_guard, event_guard;
};
using DevicePointer = std::shared_ptr<const Device>;

// Where an IP address of this machine leads.
struct DevicePort {
  DevicePointer device;
  std::uint8_t number = 0;
  std::string ip;
  // ---- For datagrams ----
  std::uint32_t mtu = 0;  // bytes of the largest; 0: the device has none
  bool ethernet = false;
  std::uint8_t gid_index = 0;
  union ibv_gid gid {};
  std::uint16_t lid = 0;
  __be16 partition = 0;  // the first one of the port's table
};

// The GID that stands for an IP address on Ethernet.
union ibv_gid gid_of(const remote::Endpoint& ip) noexcept;

// Any thread, but for what changes it.
class DeviceList {
 public:
  // Opens the present devices. RIPC_UNSUPPORTED: there is no device, or none that can be used, with the reason. Quick
  // and silent.
  static Result<std::shared_ptr<const DeviceList>> open();
  DeviceList(std::shared_ptr<const VerbsLibrary> library, std::vector<DevicePort> ports)
      : library_(std::move(library)), ports_(std::move(ports)) {}

  const std::shared_ptr<const VerbsLibrary>& library() const noexcept { return library_; }
  // The present ports, in the order in which they were found. That is at first the order of the system's addresses.
  std::vector<DevicePort> ports() const;
  // Nothing: this address of this machine does not belong to an RDMA device.
  std::optional<DevicePort> port_of(const std::string& ip) const;
  std::vector<DevicePointer> devices() const;

  // ---- What there is changes; one thread at a time ----
  // The device was taken away. It is closed when nobody uses it any more.
  void forget(const Device& device) const;
  // Opens devices that have been added, and finds new addresses. Returns whether it found any.
  bool look_again() const;
  void set_ports(std::vector<DevicePort> ports) const;
  // The thread that makes a change calls `changed` after it, until ignore() has returned.
  using ListenerId = std::uint64_t;
  ListenerId listen(std::function<void()> changed) const;
  void ignore(ListenerId id) const noexcept;

 private:
  const std::shared_ptr<const VerbsLibrary> library_;
  mutable std::mutex mutex_;
  mutable std::vector<DevicePort> ports_;
  mutable std::mutex listeners_mutex_;
  mutable ListenerId last_id_ = 0;
  mutable std::map<ListenerId, std::function<void()>> listeners_;
};

}  // namespace ripc::internal::verbs
