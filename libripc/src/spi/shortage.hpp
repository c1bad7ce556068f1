// SPDX-License-Identifier: Apache-2.0
// What a channel was short of when it last returned RIPC_AGAIN. A wait for room then waits for that resource, and not
// for one that the message does not need.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "ripc/ripc.h"

namespace ripc::internal::spi {

enum class Resource : std::uint8_t {
  queue,      // room for packets
  transfers,  // slots for messages with long items
  grants,     // slots for return buffers
  control,    // room for what goes to the peer's responder
};

struct Need {
  Resource resource = Resource::queue;
  std::uint32_t count = 1;
};

// One for each channel. Any thread. Several threads may be short of different resources, and each waits for its own. A
// thread that waits on behalf of others, without having tried itself, waits for what the last of them needed.
class Shortage {
 public:
  // Records the status of an attempt to get one of this resource, and returns that status. A message needs all its
  // grants at once, then room in the queue; without either, it gives its grants back. How many it wants is not known
  // here, only that it needs one more than it got.
  ripc_status note(ripc_status status, Resource resource) noexcept {
    Attempt& attempt = this_threads();
    if (attempt.channel != this) attempt = {.channel = this};
    if (status == RIPC_AGAIN) {
      attempt.need = {resource, resource == Resource::grants ? attempt.grants + 1 : 1};
      latest_.store(attempt.need, std::memory_order_relaxed);
    } else if (status == RIPC_OK && resource == Resource::grants) {
      attempt.grants = std::min<std::uint32_t>(attempt.grants + 1, RIPC_MAX_RETURNS - 1);
      return status;
    } else if (status == RIPC_OK && resource == Resource::queue && attempt.need.resource != Resource::queue) {
      attempt.need = {};
      latest_.store({}, std::memory_order_relaxed);
    }
    attempt.grants = 0;
    return status;
  }

  Need need() const noexcept {
    const Attempt& attempt = this_threads();
    return attempt.channel == this ? attempt.need : latest_.load(std::memory_order_relaxed);
  }

 private:
  struct Attempt {
    const Shortage* channel = nullptr;
    Need need{};
    std::uint32_t grants = 0;  // that the message being sent has
  };
  static Attempt& this_threads() noexcept {
    static thread_local Attempt attempt;
    return attempt;
  }

  std::atomic<Need> latest_{};
};

}  // namespace ripc::internal::spi
