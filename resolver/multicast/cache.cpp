// SPDX-License-Identifier: Apache-2.0
#include "resolver/multicast/cache.hpp"

#include <utility>

namespace ripc::internal::resolver {

ServiceCache::Learned ServiceCache::learn(const spi::ServiceRecord& record, bool is_answer, Nanoseconds now,
                                          std::uint64_t timestamp) {
  const auto found = entries_.find(record.id);
  if (found != entries_.end()) {
    const Entry& entry = found->second;
    const bool is_same = entry.record.incarnation == record.incarnation && entry.record.context == record.context;
    if (!is_same && record.incarnation <= entry.record.incarnation) return Learned::outdated;
    const bool is_overtaken = timestamp < entry.timestamp && entry.timestamp - timestamp <= clock_tolerance_;
    // The send failed on the way to the addresses known then.
    const bool is_elsewhere = !is_overtaken && record.addresses != entry.record.addresses;
    if (is_same && entry.is_doubtful && !is_answer && !is_elsewhere) return Learned::doubtful;
    if (is_same && is_overtaken) return entry.is_doubtful ? Learned::doubtful : Learned::usable;
  }
  replace(record, now, timestamp);
  return Learned::usable;
}

void ServiceCache::replace(const spi::ServiceRecord& record, Nanoseconds now, std::uint64_t timestamp) {
  // Allocate first, so that an entry either has its record and its place or does not exist.
  spi::ServiceRecord copy = record;
  std::list<ripc_service_id> place{record.id};
  const auto [position, is_new] = entries_.try_emplace(record.id);
  Entry& entry = position->second;
  if (is_new) {
    entry.order = place.begin();
    order_.splice(order_.end(), place);
  } else {
    order_.splice(order_.end(), order_, entry.order);
  }
  entry.record = std::move(copy);
  entry.learned_at = now;
  entry.timestamp = timestamp;
  entry.is_doubtful = false;
  if (entries_.size() <= max_services_) return;
  entries_.erase(order_.front());
  order_.pop_front();
}

const spi::ServiceRecord* ServiceCache::find(ripc_service_id id, Nanoseconds now) const {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.is_doubtful || found->second.learned_at + max_age_ < now) return nullptr;
  return &found->second.record;
}

const spi::ServiceRecord* ServiceCache::last(ripc_service_id id) const noexcept {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second.record;
}

std::uint64_t ServiceCache::incarnation(ripc_service_id id) const noexcept {
  const spi::ServiceRecord* record = last(id);
  return record == nullptr ? 0 : record->incarnation;
}

bool ServiceCache::is_doubtful(ripc_service_id id) const noexcept {
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second.is_doubtful;
}

void ServiceCache::doubt(const spi::ServiceRecord& record) noexcept {
  const auto found = entries_.find(record.id);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (entry.record.incarnation > record.incarnation || entry.record.context != record.context) return;
  entry.is_doubtful = true;
}

void ServiceCache::visit(Nanoseconds since, const spi::Visit& visit) const {
  for (const ripc_service_id id : order_) {
    const Entry& entry = entries_.at(id);
    if (!entry.is_doubtful && entry.learned_at >= since) visit(entry.record);
  }
}

}  // namespace ripc::internal::resolver
