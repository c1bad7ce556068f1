// SPDX-License-Identifier: Apache-2.0
// What resolvers know of one service: that it exists, where it is, and in which groups.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/path/paths.hpp"
#include "core/state/group_table.hpp"
#include "core/state/service_life.hpp"
#include "spi/resolver.hpp"

namespace ripc::internal::core {

// Any thread.
class Publication {
 public:
  Publication(spi::ServiceRecord record, ServiceLife& life, const Paths& paths, GroupTable& groups,
              spi::Resolver& resolver) noexcept
      : life_(life), paths_(paths), groups_(groups), resolver_(resolver), record_(std::move(record)) {}

  // Makes the service findable; *displaced gets the registrations from which it has taken the ID.
  Status open(bool takeover, std::vector<spi::ServiceRecord>* displaced);
  // Publishes the context's addresses, if they differ from the published ones. The errors of Resolver::update().
  Status publish_addresses();
  Status join(ripc_service_id group) { return change_groups(group, true); }
  Status leave(ripc_service_id group) { return change_groups(group, false); }
  // Undoes open(). `withdraws`: this service must withdraw its record.
  void close(bool withdraws) noexcept;

  ripc_service_id id() const noexcept { return record_.id; }
  const std::string& name() const noexcept { return record_.name; }
  // 0 until open() has returned, then constant.
  std::uint64_t incarnation() const noexcept { return incarnation_.load(std::memory_order_acquire); }
  // The record as it is published now.
  spi::ServiceRecord record() const {
    const std::lock_guard lock(mutex_);
    return record_;
  }

 private:
  Status change_groups(ripc_service_id group, bool join);

  ServiceLife& life_;
  const Paths& paths_;
  GroupTable& groups_;
  spi::Resolver& resolver_;
  mutable std::mutex mutex_;  // all of record_ but its ID and name, is_open_, and what the resolver has
  spi::ServiceRecord record_;
  std::atomic<std::uint64_t> incarnation_{0};
  bool is_open_ = false;
};

}  // namespace ripc::internal::core
