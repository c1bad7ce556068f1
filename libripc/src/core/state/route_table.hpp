// SPDX-License-Identifier: Apache-2.0
// Which channel leads to which service: read without a lock on every send, changed under one.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/thread_epoch.hpp"
#include "spi/transport.hpp"

namespace ripc::internal::core {

class RouteTable {
 public:
  explicit RouteTable(EpochDomain& epochs);
  ~RouteTable();

  // The channel to a service, or nullptr. Valid while the caller's ThreadEpoch::Section lives. Any thread, no lock.
  const std::shared_ptr<spi::Channel>* find(ripc_service_id id) const noexcept {
    const Table& table = *table_.load(std::memory_order_acquire);
    for (std::size_t position = start(id, table);; position = (position + 1) & table.mask) {
      const Route* route = table.slots[position].load(std::memory_order_acquire);
      if (route == nullptr) return nullptr;
      if (route->id == id && route->way.channel) return &route->way.channel;
    }
  }

  // The whole path, if its channel is alive. Any thread.
  std::optional<spi::Connected> open_path(ripc_service_id id) const;

  // Adds a path unless a living one is there already. Returns the channel that is in the table afterwards.
  std::shared_ptr<spi::Channel> insert(ripc_service_id id, spi::Connected way);
  // Removes this channel, wherever it is; the caller makes the EpochDomain reclaim later.
  void remove(const spi::Channel& channel) noexcept;

  // Addresses received from the services themselves, for those that no resolver knows. Bounded: beyond kMaxLearned
  // services, the one that was learned first is forgotten. A new address does not make a service newer.
  static constexpr std::size_t kMaxLearned = 65536;
  void learn(ripc_service_id id, spi::Address address);
  std::optional<spi::Address> learned(ripc_service_id id) const;

 private:
  // One link to a peer: short messages keep their order on one rail. Only the bytes of long items use several rails,
  // and the session handles those (remote/bulk/lanes.hpp).
  struct Route {
    ripc_service_id id = 0;
    spi::Connected way;
    EpochDomain::Retirement end;  // of this route
  };
  struct Table {
    explicit Table(std::size_t size) : slots(size), mask(size - 1) {}
    std::vector<std::atomic<Route*>> slots;  // a power of two
    std::size_t mask;                        // of the index of one
    EpochDomain::Retirement end;             // of this table
  };
  static std::unique_ptr<Route> make_route(ripc_service_id id, spi::Connected way);
  static std::unique_ptr<Table> make_table(std::size_t size);
  static std::size_t start(ripc_service_id id, const Table& table) noexcept {
    return static_cast<std::size_t>((id * 0x9e3779b97f4a7c15u) >> 32) & table.mask;
  }
  std::atomic<Route*>* locate(Table& table, ripc_service_id id) const noexcept;
  void store(Table& table, Route* route) noexcept;
  void make_room();

  EpochDomain& epochs_;
  std::atomic<Table*> table_;
  Route removed_{};  // in the slot of every removed route: it has no channel, so nobody finds it
  mutable std::mutex mutex_;
  std::size_t used_ = 0;  // slots that are not empty, including those of removed routes
  std::unordered_map<ripc_service_id, spi::Address> learned_;
  std::list<ripc_service_id> learned_order_;  // oldest first
};

}  // namespace ripc::internal::core
