// SPDX-License-Identifier: Apache-2.0
#include "rpc/workers.hpp"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "rpc/server.hpp"

namespace ripc::internal::rpc {

Status Workers::start() {
  try {
    for (std::uint32_t index = 0; index < threads_wanted_; ++index) {
      threads_.emplace_back([this] { work(); });
      ::pthread_setname_np(threads_.back().native_handle(), "ripc-worker");
    }
  } catch (const std::system_error& error) {
    stop();
    return system_error(error.code().value(), "Starting a worker of an endpoint", "raise ulimit -u");
  }
  return {};
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
