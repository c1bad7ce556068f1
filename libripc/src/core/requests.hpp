// SPDX-License-Identifier: Apache-2.0
// Requests of one service that wait for a reply: their return buffers and who may write them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "ripc/ripc.h"
#include "spi/transport.hpp"

namespace ripc::core {

struct Request {
  std::shared_ptr<spi::Channel> channel;
  ripc_service_id to = 0;
  std::vector<wire::Grant> grants;
  std::vector<ripc_return_buffer> buffers;
  bool cancelling = false;  // some grants have ended
};

// Any thread.
class RequestTable {
 public:
  std::uint64_t add(Request request) {
    const std::lock_guard lock(mutex_);
    std::uint64_t id = 0;
    do {
      id = random_u64();
    } while (id == 0 || requests_.contains(id));
    requests_.emplace(id, std::move(request));
    return id;
  }

  // A request that was taken out; empty() if there was none. Putting it back takes no memory.
  using Taken = std::map<std::uint64_t, Request>::node_type;

  // Takes a request out. With `from`, only if it went to that service.
  Taken take(std::uint64_t id, ripc_service_id from = 0) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = requests_.find(id);
    if (found == requests_.end() || (from != 0 && found->second.to != from)) return {};
    return requests_.extract(found);
  }

  void put_back(Taken&& request) noexcept {
    const std::lock_guard lock(mutex_);
    requests_.insert(std::move(request));
  }

  // The one whose ID comes next after this one; 0: there is none.
  std::uint64_t next(std::uint64_t id) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = requests_.upper_bound(id);
    return found == requests_.end() ? 0 : found->first;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Request> requests_;
};

}  // namespace ripc::core
