// SPDX-License-Identifier: Apache-2.0
#include "remote/session/rails.hpp"

#include "base/interface_list.hpp"

namespace ripc::internal::remote {

namespace {

// The address of this machine from which packets leave for that one; empty: there is no route.
Endpoint source_for(const Endpoint& remote) {
  const UniqueFd fd(::socket(remote.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), remote.address(), remote.size()) != 0) return {};
  return Endpoint::local_of(fd.get()).with_port(0);
}

// "": no interface has that address.
std::string interface_of(const Endpoint& local, const ifaddrs* list) {
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr != nullptr && Endpoint::of(*entry->ifa_addr).same_ip(local)) return entry->ifa_name;
  }
  return "";
}

}  // namespace

std::string interface_of(const Endpoint& local) { return interface_of(local, list_interfaces().get()); }

std::vector<Rail> find_rails(std::span<const Endpoint> remotes, std::size_t most,
                             const std::function<bool(const Endpoint& local, const std::string& interface)>& can_be) {
  std::vector<Rail> rails;
  if (remotes.empty()) return rails;
  const InterfaceList list = list_interfaces();
  std::vector<std::string> used;
  for (const Endpoint& remote : remotes) {
    if (rails.size() == most) break;
    const Endpoint local = source_for(remote);
    if (!local || local.is_loopback() || local.same_ip(remote)) continue;
    const std::string interface = interface_of(local, list.get());
    if (std::find(used.begin(), used.end(), interface) != used.end() || !can_be(local, interface)) continue;
    used.push_back(interface);
    rails.push_back({.local = local, .remote = remote});
  }
  if (rails.empty()) rails.push_back({.local = source_for(remotes.front()), .remote = remotes.front()});
  return rails;
}

}  // namespace ripc::internal::remote
