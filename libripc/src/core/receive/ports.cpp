// SPDX-License-Identifier: Apache-2.0
#include "core/receive/ports.hpp"

#include <algorithm>

namespace ripc::internal::core {

Status Ports::open(std::vector<std::unique_ptr<spi::Transport>>& transports, const spi::PortOptions& options,
                   EventSet& events) {
  for (const auto& transport : transports) {
    Result<std::unique_ptr<spi::Port>> port = transport->open_port(options, events);
    if (!port.ok()) return port.status();
    ports_.push_back(std::move(*port));
  }
  return {};
}

std::size_t Ports::packet_limit() const noexcept {
  std::size_t limit = 0;
  for (const auto& port : ports_) limit = std::max(limit, port->packet_limit());
  return limit;
}

std::size_t Ports::source_count() const noexcept {
  std::size_t count = 0;
  for (const auto& port : ports_) count += port->statistics().sources;
  return count;
}

void Ports::published(std::uint64_t incarnation) noexcept {
  for (const auto& port : ports_) port->published(incarnation);
}

void Ports::add_to(ripc_service_statistics& statistics) const noexcept {
  for (const auto& port : ports_) {
    const spi::PortStatistics seen = port->statistics();
    statistics.senders += seen.sources;
    statistics.packets_lost += seen.lost;
    statistics.packets_late += seen.late;
    statistics.packets_duplicate += seen.duplicates;
    statistics.packets_corrupt += seen.corrupt;
  }
}

void Ports::disarm_each() noexcept {
  is_armed_ = false;
  for (const auto& port : ports_) (void)port->arm(false);
}

void Ports::close() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& port : ports_) port->close();
}

void Ports::clear() noexcept {
  // The responder may be closing them still, because the service was fenced.
  const std::lock_guard lock(mutex_);
  ports_.clear();
}

}  // namespace ripc::internal::core
