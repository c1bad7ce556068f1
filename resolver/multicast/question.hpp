// SPDX-License-Identifier: Apache-2.0
// A question under way: which threads ask, when it is repeated, and what was answered.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "resolver/multicast/udp_network.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::resolver {

inline constexpr Nanoseconds kFirstPause = 20'000'000;
inline constexpr Nanoseconds kLongestPause = 500'000'000;

// Protected by its resolver's lock.
struct Question {
  ripc_service_id id = 0;         // 0: all
  bool is_probe = false;          // someone wants to publish the ID
  std::uint64_t incarnation = 0;  // probe: of the service that is to be published
  std::uint64_t nonce = random_u64() | 1;

  unsigned rounds = 0;         // sent so far
  Nanoseconds next_round = 0;  // monotonic; 0: at once
  Backoff pause{kFirstPause, kLongestPause};
  bool reaches_more = false;  // than the last round did, as a group has been joined since

  unsigned waiters = 0;
  std::condition_variable changed;
  // The thread that asked first waits on a channel of its own, the others on `changed`.
  UdpNetwork::ReplyChannel* channel = nullptr;
  std::thread::id channel_owner;
  std::optional<spi::ServiceRecord> answer;
  // The only answer so far, with a smaller incarnation than the last known holder. If no larger one comes until the
  // next round, that holder is gone, and the clock of the new holder's host is behind.
  std::optional<spi::ServiceRecord> older;

  // For a list: which packets of each context have come, and how many there are (0: not known).
  struct Parts {
    std::unordered_set<std::uint64_t> numbers;
    std::uint64_t count = 0;
  };
  std::unordered_map<std::uint64_t, Parts> parts;
  Nanoseconds last_received = 0;
  unsigned other_key_replies = 0;  // replies by hosts that do not have our cluster key, or have one where we have none

  // Wakes all waiting threads.
  void notify() noexcept {
    changed.notify_all();
    if (channel != nullptr && channel_owner != std::this_thread::get_id()) channel->wake();
  }

  // Makes the next round go out now.
  void ask_again(Nanoseconds now) noexcept {
    reaches_more = true;
    next_round = std::min(next_round, now);
    notify();
  }

  // Notes that a round goes out now. The pauses vary, or contexts that began together would collide every time.
  void start_round(Nanoseconds now) noexcept {
    ++rounds;
    reaches_more = false;
    const Nanoseconds until_next = pause.next();
    next_round = now + until_next + random_u64() % (until_next / 4 + 1);
  }

  bool has_all_parts() const noexcept {
    return std::all_of(parts.begin(), parts.end(), [](const auto& item) {
      return item.second.count != 0 && item.second.numbers.size() == item.second.count;
    });
  }
};

}  // namespace ripc::internal::resolver
