// SPDX-License-Identifier: Apache-2.0
// What a context has refused, over all of its transports and resolvers.
#pragma once

#include <atomic>
#include <cstdint>

namespace ripc::internal::security {

// Any thread.
struct Counters {
  // With the wrong key or none, by a non-member, without encryption, by a user that is not admitted, or too slow.
  std::atomic<std::uint64_t> handshakes_refused{0};
  std::atomic<std::uint64_t> links_refused{0};  // by members that may not call the service
  // Records of services: with a bad signature, not allowed by the trust file, from before a takeover, or copied.
  std::atomic<std::uint64_t> records_refused{0};
  // After the handshakes, by all connections and links, and by the resolvers:
  // Records and datagrams whose tag was wrong or missing, and ZooKeeper nodes without a record of their ID.
  std::atomic<std::uint64_t> packets_forged{0};
  // Datagrams of links and multicast packets that had already come, and packets whose time is too far from ours.
  std::atomic<std::uint64_t> packets_replayed{0};
  std::atomic<std::uint64_t> packets_not_admitted{0};  // by multicast, of a user that is not admitted

  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t count = 1) noexcept {
    counter.fetch_add(count, std::memory_order_relaxed);
  }
  static std::uint64_t read(const std::atomic<std::uint64_t>& counter) noexcept {
    return counter.load(std::memory_order_relaxed);
  }
};

}  // namespace ripc::internal::security
