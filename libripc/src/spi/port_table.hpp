// SPDX-License-Identifier: Apache-2.0
// The open ports of a transport, by service. While a service takes over an ID within its own context, the old and the
// new service both have one.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ripc/ripc.h"

namespace ripc::internal::spi {

// For the thread that holds the transport's mutex. Owns no port.
template <typename P>
class PortTable {
 public:
  void add(ripc_service_id id, P& port) {
    std::vector<P*> one{&port};
    const auto [place, is_new] = ports_.try_emplace(id, std::move(one));
    if (!is_new) place->second.push_back(&port);
  }

  // Removes the port. The one opened before it, if it is still there, takes new links again.
  void remove(ripc_service_id id, const P& port) noexcept {
    const auto found = ports_.find(id);
    if (found == ports_.end()) return;
    std::erase(found->second, &port);
    if (found->second.empty()) ports_.erase(found);
  }

  // The port that takes new links: the one opened last. nullptr: there is no such service.
  P* find(ripc_service_id id) const noexcept {
    const auto found = ports_.find(id);
    return found == ports_.end() ? nullptr : found->second.back();
  }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [id, ports] : ports_) {
      for (P* port : ports) visit(*port);
    }
  }
  template <typename Visit>
  void for_each_of(ripc_service_id id, Visit&& visit) const {
    if (const auto found = ports_.find(id); found != ports_.end()) {
      for (P* port : found->second) visit(*port);
    }
  }

 private:
  std::unordered_map<ripc_service_id, std::vector<P*>> ports_;
};

}  // namespace ripc::internal::spi
