// SPDX-License-Identifier: Apache-2.0
// Handlers, and the threads for handlers that may block.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "ripc/rpc.h"
#include "rpc/fifo.hpp"
#include "rpc/method_record.hpp"

namespace ripc::internal::rpc {

struct Handler {
  ripc_rpc_handler run = nullptr;
  void* user = nullptr;
  bool is_for_workers = false;
  MethodRecord record{};  // of its requests
};

// A bounded queue and its threads.
class Workers {
 public:
  Workers(std::uint32_t threads, std::uint32_t queue) : threads_wanted_(threads), queue_limit_(queue) {}
  ~Workers() { stop(); }

  // RIPC_SYSTEM: a thread cannot be started.
  Status start();
  // Waits for the running handlers, and drops the requests that no worker has taken.
  void stop() noexcept;

  // Any thread. False: the queue is full.
  bool push(ripc_request& request) noexcept;

 private:
  void work() noexcept;

  const std::uint32_t threads_wanted_;
  const std::uint32_t queue_limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Fifo<ripc_request> queue_;
  std::uint32_t size_ = 0;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ripc::internal::rpc
