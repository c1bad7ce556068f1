// SPDX-License-Identifier: Apache-2.0
// Requests of one service that wait for a reply: their return buffers and who may write them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
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

  // Takes a request out. With `from`, only if it went to that service.
  std::optional<Request> take(std::uint64_t id, ripc_service_id from = 0) {
    const std::lock_guard lock(mutex_);
    const auto found = requests_.find(id);
    if (found == requests_.end() || (from != 0 && found->second.to != from)) return std::nullopt;
    std::optional<Request> request(std::move(found->second));
    requests_.erase(found);
    return request;
  }

  void put_back(std::uint64_t id, Request request) {
    const std::lock_guard lock(mutex_);
    requests_.emplace(id, std::move(request));
  }

  std::vector<std::uint64_t> ids() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint64_t> ids;
    for (const auto& [id, request] : requests_) ids.push_back(id);
    return ids;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Request> requests_;
};

}  // namespace ripc::core
