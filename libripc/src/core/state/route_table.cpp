// SPDX-License-Identifier: Apache-2.0
#include "core/state/route_table.hpp"

namespace ripc::internal::core {

namespace {

constexpr std::size_t kFirstSize = 64;

}  // namespace

RouteTable::RouteTable(EpochDomain& epochs) : epochs_(epochs), table_(make_table(kFirstSize).release()) {}

RouteTable::~RouteTable() {
  Table* table = table_.load(std::memory_order_relaxed);
  for (auto& slot : table->slots) {
    Route* route = slot.load(std::memory_order_relaxed);
    if (route != &removed_) delete route;
  }
  delete table;
}

// Finds the slot of a route. Removed routes keep their slots until the table is rebuilt, because the search continues
// past them.
std::atomic<RouteTable::Route*>* RouteTable::locate(Table& table, ripc_service_id id) const noexcept {
  for (std::size_t position = start(id, table);; position = (position + 1) & table.mask) {
    const Route* route = table.slots[position].load(std::memory_order_relaxed);
    if (route == nullptr) return nullptr;
    if (route->id == id && route->way.channel) return &table.slots[position];
  }
}

void RouteTable::store(Table& table, Route* route) noexcept {
  std::size_t position = start(route->id, table);
  while (table.slots[position].load(std::memory_order_relaxed) != nullptr) position = (position + 1) & table.mask;
  table.slots[position].store(route, std::memory_order_release);
}

// A route made here can be removed later without allocating.
std::unique_ptr<RouteTable::Route> RouteTable::make_route(ripc_service_id id, spi::Connected way) {
  auto route = std::make_unique<Route>();
  route->id = id;
  route->way = std::move(way);
  route->end = EpochDomain::prepare([made = route.get()] { delete made; });
  return route;
}

std::unique_ptr<RouteTable::Table> RouteTable::make_table(std::size_t size) {
  auto table = std::make_unique<Table>(size);
  table->end = EpochDomain::prepare([made = table.get()] { delete made; });
  return table;
}

void RouteTable::make_room() {
  Table* old = table_.load(std::memory_order_relaxed);
  if ((used_ + 1) * 2 <= old->slots.size()) return;
  std::size_t living = 0;
  for (const auto& slot : old->slots) {
    const Route* route = slot.load(std::memory_order_relaxed);
    if (route != nullptr && route != &removed_) ++living;
  }
  std::size_t size = kFirstSize;
  while (size < (living + 1) * 4) size *= 2;
  std::unique_ptr<Table> fresh = make_table(size);
  for (const auto& slot : old->slots) {
    Route* route = slot.load(std::memory_order_relaxed);
    if (route != nullptr && route != &removed_) store(*fresh, route);
  }
  used_ = living;
  table_.store(fresh.release(), std::memory_order_release);
  epochs_.retire(std::move(old->end));
}

std::shared_ptr<spi::Channel> RouteTable::insert(ripc_service_id id, spi::Connected way) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<spi::Channel> channel = way.channel;
  std::atomic<Route*>* const slot = locate(*table_.load(std::memory_order_relaxed), id);
  Route* const former = slot == nullptr ? nullptr : slot->load(std::memory_order_relaxed);
  if (former != nullptr && former->way.channel->alive()) return former->way.channel;
  std::unique_ptr<Route> route = make_route(id, std::move(way));
  if (former != nullptr) {
    slot->store(route.release(), std::memory_order_release);
    epochs_.retire(std::move(former->end));
    return channel;
  }
  make_room();
  store(*table_.load(std::memory_order_relaxed), route.release());
  ++used_;
  return channel;
}

void RouteTable::remove(const spi::Channel& channel) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& slot : table_.load(std::memory_order_relaxed)->slots) {
    Route* route = slot.load(std::memory_order_relaxed);
    if (route == nullptr || route->way.channel.get() != &channel) continue;
    slot.store(&removed_, std::memory_order_release);
    epochs_.retire(std::move(route->end));
  }
}

void RouteTable::learn(ripc_service_id id, spi::Address address) {
  const std::lock_guard lock(mutex_);
  if (const auto known = learned_.find(id); known != learned_.end()) {
    known->second = std::move(address);
    return;
  }
  std::list<ripc_service_id> newest{id};
  learned_.emplace(id, std::move(address));
  learned_order_.splice(learned_order_.end(), newest);
  if (learned_.size() <= kMaxLearned) return;
  learned_.erase(learned_order_.front());
  learned_order_.pop_front();
}

std::optional<spi::Address> RouteTable::learned(ripc_service_id id) const {
  const std::lock_guard lock(mutex_);
  const auto found = learned_.find(id);
  return found == learned_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<spi::Connected> RouteTable::open_path(ripc_service_id id) const {
  const std::lock_guard lock(mutex_);
  const std::atomic<Route*>* const slot = locate(*table_.load(std::memory_order_relaxed), id);
  if (slot == nullptr) return std::nullopt;
  const spi::Connected& way = slot->load(std::memory_order_relaxed)->way;
  return way.channel->alive() ? std::optional(way) : std::nullopt;
}

}  // namespace ripc::internal::core
