// SPDX-License-Identifier: Apache-2.0
// What the kernel says about the RDMA devices of this machine, read from sysfs. This opens no device and needs no
// library, so it costs a machine without devices no time.
#pragma once

#include <string>
#include <vector>

namespace ripc::internal::verbs {

struct GidInfo {
  unsigned index = 0;
  std::string gid;     // as the kernel writes it: eight groups of four hexadecimal digits
  std::string type;    // "RoCE v2", "IB/RoCE v1"; empty if the kernel does not say
  std::string netdev;  // the network interface that it belongs to; empty: none
};

struct PortInfo {
  unsigned number = 0;
  std::string state;          // "ACTIVE", "DOWN" ...
  std::string link_layer;     // "InfiniBand", "Ethernet"
  std::vector<GidInfo> gids;  // those that are not zero
  bool active() const noexcept { return state == "ACTIVE"; }
};

struct DeviceInfo {
  std::string name;
  bool iwarp = false;
  std::string node;  // the file through which programs use it; empty: the kernel offers none
  std::vector<PortInfo> ports;
};

// Sorted by name. `sys`: where sysfs is mounted.
std::vector<DeviceInfo> read_sysfs_devices(const std::string& sys = "/sys");

// Whether this process may open the device. False: errno says why, if the device has a file.
bool may_open(const DeviceInfo& device);

// "RoCE", "InfiniBand" or "iWARP".
std::string kind_of(const DeviceInfo& device, const PortInfo& port);

}  // namespace ripc::internal::verbs
