// SPDX-License-Identifier: Apache-2.0
// The members of the groups that this context sends to. They come from the resolver and are remembered for a while.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::core {

// One registration that is in a group. Successive lists of the group share it, so that what a send has learned about it
// outlives a list.
class GroupMember {
 public:
  explicit GroupMember(spi::ServiceRecord record) : record_(std::move(record)) {}

  const spi::ServiceRecord& record() const noexcept { return record_; }

  // Any thread. Whether a path to it may be searched for now. After each failure, searches pause for a longer time.
  bool may_try(Nanoseconds now) const noexcept { return now >= next_try_.load(std::memory_order_relaxed); }
  void failed(Nanoseconds now) noexcept;
  void succeeded() noexcept { pause_.store(0, std::memory_order_relaxed); }

 private:
  const spi::ServiceRecord record_;
  std::atomic<Nanoseconds> next_try_{0};
  std::atomic<Nanoseconds> pause_{0};
};

struct GroupList {
  std::vector<std::shared_ptr<GroupMember>> members;  // each service once; at most GroupTable::kMaxMembers
  std::size_t left_out = 0;                           // number of members beyond that limit
  Status failure;                                     // why a resolver did not answer; RIPC_OK if all did
};

// Thread-safe.
class GroupTable {
 public:
  static constexpr std::size_t kMaxMembers = 4096;
  static constexpr std::size_t kMaxRemembered = 1024;  // groups; beyond that, the least recently used one is forgotten

  // refresh: how old a list may become. timeout: how long the first question for a group may take.
  GroupTable(spi::Resolver& resolver, Nanoseconds refresh, Nanoseconds timeout)
      : resolver_(resolver), refresh_(refresh), timeout_(timeout) {}

  // Never nullptr. Asks the resolver, in this thread, if the list is too old or missing.
  std::shared_ptr<const GroupList> members(ripc_service_id group);

  // The same, but never waits for other hosts: nullptr if nobody has asked for the group before.
  std::shared_ptr<const GroupList> known(ripc_service_id group);

  Nanoseconds refresh() const noexcept { return refresh_; }

  // Makes the next members() ask the resolver.
  void outdate(ripc_service_id group);

 private:
  struct Entry {
    std::shared_ptr<const GroupList> list;  // nullptr: not asked yet
    Nanoseconds due = 0;
    Nanoseconds used = 0;
    std::uint64_t changes = 0;  // counts outdate()
  };
  Entry& entry(ripc_service_id group, Nanoseconds now);
  std::shared_ptr<const GroupList> ask(ripc_service_id group, const std::shared_ptr<const GroupList>& former,
                                       Deadline deadline);

  spi::Resolver& resolver_;
  const Nanoseconds refresh_;
  const Nanoseconds timeout_;
  std::mutex mutex_;
  std::unordered_map<ripc_service_id, Entry> entries_;
};

}  // namespace ripc::internal::core
