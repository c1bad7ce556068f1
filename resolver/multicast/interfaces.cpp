// SPDX-License-Identifier: Apache-2.0
#include "resolver/multicast/interfaces.hpp"

#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/interface_list.hpp"

namespace ripc::internal::resolver {
namespace {

struct Found {
  Interface interface;
  bool is_loopback = false;
};

// A port of a bridge, bond or team receives what its master receives.
bool has_master(const std::string& name) { return ::access(("/sys/class/net/" + name + "/master").c_str(), F_OK) == 0; }

bool is_candidate(const ifaddrs& entry, const std::vector<std::string>& wanted) {
  if ((entry.ifa_flags & IFF_UP) == 0 || entry.ifa_addr == nullptr) return false;
  if (!wanted.empty()) return std::find(wanted.begin(), wanted.end(), entry.ifa_name) != wanted.end();
  return (entry.ifa_flags & (IFF_MULTICAST | IFF_LOOPBACK)) != 0 && !has_master(entry.ifa_name);
}

}  // namespace

Result<std::vector<Interface>> usable_interfaces(const std::vector<std::string>& wanted) {
  const InterfaceList list = list_interfaces();
  if (!list) return system_error(errno, "Listing the network interfaces");
  std::map<unsigned, Found> found;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (!is_candidate(*entry, wanted)) continue;
    const unsigned index = ::if_nametoindex(entry->ifa_name);
    if (index == 0) continue;
    Found& item = found[index];
    item.interface.index = index;
    item.interface.name = entry->ifa_name;
    item.is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (entry->ifa_addr->sa_family == AF_INET) item.interface.has_ipv4 = true;
    if (entry->ifa_addr->sa_family == AF_INET6 && !item.is_loopback) item.interface.has_ipv6 = true;
  }
  const bool has_other = std::any_of(found.begin(), found.end(), [](const auto& item) {
    const Found& other = item.second;
    return !other.is_loopback && (other.interface.has_ipv4 || other.interface.has_ipv6);
  });
  std::vector<Interface> usable;
  for (auto& [index, item] : found) {
    if (!item.interface.has_ipv4 && !item.interface.has_ipv6) continue;
    if (wanted.empty() && item.is_loopback && has_other) continue;
    if (usable.size() < kMaxInterfaces) usable.push_back(std::move(item.interface));
  }
  return usable;
}

}  // namespace ripc::internal::resolver
