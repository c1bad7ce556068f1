// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/inventory.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace ripc::verbs {

namespace {

// The kernel's tables have up to some thousand entries, most of them empty, and their numbers are in use from the
// start.
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

PortInfo read_port(const std::string& path, unsigned number) {
  PortInfo port;
  port.number = number;
  port.state = after_colon(line_of(path + "/state"));
  port.link_layer = line_of(path + "/link_layer");
  for (unsigned index = 0; index < kMostGids; ++index) {
    const std::string text = std::to_string(index);
    GidInfo gid{.index = index, .gid = line_of(path + "/gids/" + text), .type = {}, .netdev = {}};
    if (gid.gid.empty()) break;
    if (gid.gid.find_first_not_of("0:") == std::string::npos) continue;
    gid.type = line_of(path + "/gid_attrs/types/" + text);
    gid.netdev = line_of(path + "/gid_attrs/ndevs/" + text);
    port.gids.push_back(std::move(gid));
  }
  return port;
}

}  // namespace

std::vector<DeviceInfo> read_inventory(const std::string& sys) {
  std::vector<DeviceInfo> devices;
  const std::string root = sys + "/class/infiniband";
  for (const std::string& name : names_in(root)) {
    DeviceInfo device;
    device.name = name;
    device.iwarp = after_colon(line_of(root + "/" + name + "/node_type")) == "RNIC";
    for (const std::string& node : names_in(sys + "/class/infiniband_verbs")) {
      if (line_of(sys + "/class/infiniband_verbs/" + node + "/ibdev") == name) device.node = "/dev/infiniband/" + node;
    }
    for (const std::string& number : names_in(root + "/" + name + "/ports")) {
      unsigned value = 0;
      std::from_chars(number.data(), number.data() + number.size(), value);
      if (value != 0) device.ports.push_back(read_port(root + "/" + name + "/ports/" + number, value));
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

std::string kind_of(const DeviceInfo& device, const PortInfo& port) {
  if (device.iwarp) return "iWARP";
  return port.link_layer == "Ethernet" ? "RoCE" : "InfiniBand";
}

}  // namespace ripc::verbs
