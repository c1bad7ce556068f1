// SPDX-License-Identifier: Apache-2.0
// The receiving sides of one service, one on each transport.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "spi/transport.hpp"

namespace ripc::internal::core {

class Ports {
 public:
  // Called before anything else.
  Status open(std::vector<std::unique_ptr<spi::Transport>>& transports, const spi::PortOptions& options,
              EventSet& events);

  auto begin() const noexcept { return ports_.begin(); }
  auto end() const noexcept { return ports_.end(); }

  // The largest packet that can arrive.
  std::size_t packet_limit() const noexcept;
  // Any thread. The number of open sources.
  std::size_t source_count() const noexcept;
  void published(std::uint64_t incarnation) noexcept;
  // Any thread.
  void add_to(ripc_service_statistics& statistics) const noexcept;

  // The receiving thread. Between arm() and disarm(), every arrival makes the service's EventSet readable. Calls `look`
  // with each port that must be polled once more before a sleep.
  template <class Look>
  void arm(Look look) noexcept {
    is_armed_ = true;
    for (const auto& port : ports_) {
      if (port->arm(true)) look(*port);
    }
  }
  void disarm() noexcept {
    if (is_armed_) [[unlikely]]
      disarm_each();
  }

  // Any thread. Sends of their peers fail from now on.
  void close() noexcept;
  // Called when no thread receives any more.
  void clear() noexcept;

 private:
  void disarm_each() noexcept;

  std::vector<std::unique_ptr<spi::Port>> ports_;
  std::recursive_mutex mutex_;  // their end; what the loop does meanwhile may end the service too
  bool is_armed_ = false;
};

}  // namespace ripc::internal::core
