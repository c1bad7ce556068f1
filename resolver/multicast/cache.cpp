// SPDX-License-Identifier: Apache-2.0
#include "resolver/multicast/cache.hpp"

namespace ripc::resolver {

ServiceCache::Learned ServiceCache::learn(const spi::ServiceRecord& record, bool is_answer, Nanoseconds now) {
  const auto found = entries_.find(record.id);
  if (found != entries_.end()) {
    const Entry& entry = found->second;
    const bool is_same = entry.record.incarnation == record.incarnation && entry.record.context == record.context;
    if (!is_same && record.incarnation <= entry.record.incarnation) return Learned::outdated;
    if (is_same && entry.is_doubtful && !is_answer) return Learned::doubtful;
  }
  store(record, now);
  return Learned::usable;
}

void ServiceCache::replace(const spi::ServiceRecord& record, Nanoseconds now) { store(record, now); }

void ServiceCache::store(const spi::ServiceRecord& record, Nanoseconds now) {
  const auto [position, is_new] = entries_.try_emplace(record.id);
  Entry& entry = position->second;
  if (is_new) {
    entry.order = order_.insert(order_.end(), record.id);
  } else {
    order_.splice(order_.end(), order_, entry.order);
  }
  entry.record = record;
  entry.heard = now;
  entry.is_doubtful = false;
  if (entries_.size() <= max_services_) return;
  entries_.erase(order_.front());
  order_.pop_front();
}

const spi::ServiceRecord* ServiceCache::find(ripc_service_id id, Nanoseconds now) const {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.is_doubtful || found->second.heard + max_age_ < now) return nullptr;
  return &found->second.record;
}

std::uint64_t ServiceCache::incarnation(ripc_service_id id) const noexcept {
  const auto found = entries_.find(id);
  return found == entries_.end() ? 0 : found->second.record.incarnation;
}

void ServiceCache::doubt(const spi::ServiceRecord& record) noexcept {
  const auto found = entries_.find(record.id);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (entry.record.incarnation > record.incarnation || entry.record.context != record.context) return;
  entry.is_doubtful = true;
}

void ServiceCache::visit(Nanoseconds since, const std::function<void(const spi::ServiceRecord&)>& visit) const {
  for (const ripc_service_id id : order_) {
    const Entry& entry = entries_.at(id);
    if (!entry.is_doubtful && entry.heard >= since) visit(entry.record);
  }
}

}  // namespace ripc::resolver
