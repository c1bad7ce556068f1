// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/sysfs_devices.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace ripc::internal::verbs {

namespace {

// The kernel's tables have up to some thousand entries. Most are empty, and those in use are at the start.
constexpr unsigned kMostGids = 256;

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "4: ACTIVE" -> "ACTIVE".
std::string after_colon(const std::string& text) {
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string below(std::string folder, const std::string& name) {
  folder += '/';
  folder += name;
  return folder;
}

PortInfo read_port(const std::string& path, unsigned number) {
  PortInfo port;
  port.number = number;
  port.state = after_colon(line_of(path + "/state"));
  port.link_layer = line_of(path + "/link_layer");
  const std::string gids = path + "/gids";
  const std::string types = path + "/gid_attrs/types";
  const std::string devices = path + "/gid_attrs/ndevs";
  for (unsigned index = 0; index < kMostGids; ++index) {
    const std::string text = std::to_string(index);
    GidInfo gid{.index = index, .gid = line_of(below(gids, text)), .type = {}, .netdev = {}};
    if (gid.gid.empty()) break;
    if (gid.gid.find_first_not_of("0:") == std::string::npos) continue;
    gid.type = line_of(below(types, text));
    gid.netdev = line_of(below(devices, text));
    port.gids.push_back(std::move(gid));
  }
  return port;
}

}  // namespace

std::vector<DeviceInfo> read_sysfs_devices(const std::string& sys) {
  std::vector<DeviceInfo> devices;
  const std::string root = sys + "/class/infiniband";
  const std::string nodes = sys + "/class/infiniband_verbs";
  for (const std::string& name : names_in(root)) {
    DeviceInfo device;
    device.name = name;
    const std::string path = below(root, name);
    device.iwarp = after_colon(line_of(below(path, "node_type"))) == "RNIC";
    for (const std::string& node : names_in(nodes)) {
      if (line_of(below(below(nodes, node), "ibdev")) == name) device.node = below("/dev/infiniband", node);
    }
    const std::string ports = below(path, "ports");
    for (const std::string& number : names_in(ports)) {
      unsigned value = 0;
      std::from_chars(number.data(), number.data() + number.size(), value);
      if (value != 0) device.ports.push_back(read_port(below(ports, number), value));
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

bool may_open(const DeviceInfo& device) {
  return !device.node.empty() && access(device.node.c_str(), R_OK | W_OK) == 0;
}

std::string kind_of(const DeviceInfo& device, const PortInfo& port) {
  if (device.iwarp) return "iWARP";
  return port.link_layer == "Ethernet" ? "RoCE" : "InfiniBand";
}

}  // namespace ripc::internal::verbs
