// SPDX-License-Identifier: Apache-2.0
// Requests of one service that wait for a reply: their return buffers, and the peers that may write them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "ripc/ripc.h"
#include "spi/transport.hpp"

namespace ripc::internal::core {

struct Request {
  std::shared_ptr<spi::Channel> channel;
  ripc_service_id to = 0;
  std::vector<wire::Grant> grants;
  std::vector<ripc_return_buffer> buffers;
  bool cancelling = false;  // some grants have ended
  bool is_ending = false;   // a thread is cancelling it now
};

// Any thread.
class RequestTable {
 public:
  // A peer that is writing into a return buffer moves at memory speed; one that is stopped does not move.
  static constexpr Nanoseconds kWritePatience = 2'000'000'000;

  std::uint64_t add(Request request);

  // A request that was taken out; empty() if there was none. Putting it back takes no memory.
  using Taken = std::map<std::uint64_t, Request>::node_type;

  // Takes a request out, unless it is being cancelled. With `from`, only if it went to that service.
  Taken take(std::uint64_t id, ripc_service_id from = 0) noexcept;
  void put_back(Taken&& request) noexcept {
    const std::lock_guard lock(mutex_);
    requests_.insert(std::move(request));
  }

  // Removes a request once nobody writes its return buffers any more. RIPC_INVALID_ARGUMENT: there is none.
  // RIPC_TIMEOUT: the peer is writing and does not finish; the request stays in the table.
  Status cancel(std::uint64_t id, Deadline deadline = Deadline::after(kWritePatience));
  // The same for all requests. Those whose peers write are waited for together.
  void cancel_all() noexcept;

  // The next larger ID of a request in the table; 0: there is none.
  std::uint64_t next(std::uint64_t id) const noexcept;

 private:
  ripc_status end(std::uint64_t id, Deadline deadline) noexcept;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Request> requests_;
};

}  // namespace ripc::internal::core
