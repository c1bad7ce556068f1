// SPDX-License-Identifier: Apache-2.0
// The RDMA devices that this context uses, opened through librdmacm, and which IP address leads to which.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fork_guard.hpp"
#include "base/status.hpp"
#include "network/endpoint.hpp"
#include "transport/verbs/library.hpp"

namespace ripc::verbs {

// One opened device. Immutable; any thread.
struct Device {
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  std::shared_ptr<const Library> library;
  rdma_cm_id* anchor = nullptr;    // keeps librdmacm from closing the device
  ibv_context* context = nullptr;  // librdmacm's
  ibv_pd* pd = nullptr;
  ibv_device_attr attributes{};
  std::string name;
  bool iwarp = false;
  bool windows = false;           // has type 2 memory windows
  bool narrow_windows = false;    // and they reach no further than their range
  std::uint8_t read_depth = 1;    // RDMA reads under way on one connection
  std::uint32_t max_message = 0;  // bytes of one RDMA operation
  // The child of a fork keeps none of the device's descriptors: its queues end with this process.
  ForkGuard command_guard, event_guard;
};
using DevicePointer = std::shared_ptr<const Device>;

// Where an IP address of this machine leads.
struct FabricPort {
  DevicePointer device;
  std::uint8_t number = 0;
  std::string ip;
  // ---- For datagrams ----
  std::uint32_t mtu = 0;  // bytes of the largest; 0: the device has none
  bool ethernet = false;
  std::uint8_t gid_index = 0;
  union ibv_gid gid {};
  std::uint16_t lid = 0;
};

// The GID that stands for an IP address on Ethernet.
union ibv_gid gid_of(const network::Endpoint& ip) noexcept;

class Fabric {
 public:
  // Opens what there is. RIPC_UNSUPPORTED: no device, or none that can be used, with the reason; quick and silent.
  static Result<std::shared_ptr<const Fabric>> open();

  const std::shared_ptr<const Library>& library() const noexcept { return library_; }
  // In the order of the system's addresses.
  const std::vector<FabricPort>& ports() const noexcept { return ports_; }
  // nullptr: this address of this machine does not belong to an RDMA device.
  const FabricPort* port_of(const std::string& ip) const noexcept;
  std::vector<DevicePointer> devices() const;

 private:
  std::shared_ptr<const Library> library_;
  std::vector<FabricPort> ports_;
};

}  // namespace ripc::verbs
