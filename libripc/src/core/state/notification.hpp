// SPDX-License-Identifier: Apache-2.0
// Notifications of one service: callbacks by unguessable handle, run in the responder.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/event_loop.hpp"
#include "ripc/ripc.h"
#include "spi/transport.hpp"

namespace ripc::internal::core {

class NotificationTable : public std::enable_shared_from_this<NotificationTable> {
 public:
  // How many notifications may wait for the responder at once. Further ones are dropped and counted as unknown.
  static constexpr std::uint32_t kMaxWaiting = 1024;

  explicit NotificationTable(EventLoop& loop) : loop_(loop) {}

  // Any thread.
  std::uint64_t add(ripc_notification_callback callback, void* user);
  // Any thread. As ripc_notification_unregister(). False: not registered.
  bool remove(std::uint64_t handle) noexcept;
  void remove_all() noexcept;

  // Responder. Copies the packet and runs its callback soon, outside of nested loops.
  void arrived(spi::Bytes packet) noexcept;

  std::uint64_t run_count() const noexcept { return run_.load(std::memory_order_relaxed); }
  std::uint64_t unknown_count() const noexcept { return unknown_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    ripc_notification_callback callback;
    void* user;
    bool running = false;
  };
  void run(const std::vector<std::byte>& bytes) noexcept;

  EventLoop& loop_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Entry>> entries_;
  std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::uint64_t> run_{0};
  std::atomic<std::uint64_t> unknown_{0};
};

}  // namespace ripc::internal::core
