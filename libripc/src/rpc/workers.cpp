// SPDX-License-Identifier: Apache-2.0
#include "rpc/workers.hpp"

#include <utility>

#include "base/thread.hpp"
#include "rpc/server.hpp"

namespace ripc::internal::rpc {

Status Workers::start() {
  threads_.reserve(threads_wanted_);
  Status status;
  while (status.ok() && threads_.size() < threads_wanted_) {
    std::thread thread;
    status = start_thread(thread, "ripc-worker", "Starting a worker of an endpoint", [this] { work(); });
    if (status.ok()) threads_.push_back(std::move(thread));
  }
  if (!status.ok()) stop();
  return status;
}

void Workers::stop() noexcept {
  Fifo<ripc_request> left;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    left = std::exchange(queue_, {});
    changed_.notify_all();
  }
  while (!left.empty()) {
    ripc_request& request = left.pop();
    request.server->drop(request, RIPC_CLOSED, wire::call::State::not_run);
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool Workers::push(ripc_request& request) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_stopping_ || size_ == queue_limit_) return false;
  queue_.push(request);
  ++size_;
  changed_.notify_one();
  return true;
}

void Workers::work() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_stopping_ || !queue_.empty(); });
    if (is_stopping_) return;
    ripc_request& request = queue_.pop();
    --size_;
    lock.unlock();
    request.server->run(request);
    lock.lock();
  }
}

}  // namespace ripc::internal::rpc
