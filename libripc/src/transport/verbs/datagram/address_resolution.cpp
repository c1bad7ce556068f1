// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/datagram/address_resolution.hpp"

#include <new>
#include <utility>

#include "base/thread.hpp"

namespace ripc::internal::verbs {

Status AddressResolution::start() {
  return start_thread(thread_, "ripc-fabric", "Starting a thread of the multicast resolver", [this] { serve(); });
}

void AddressResolution::stop() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void AddressResolution::run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({.queue = {}, .peer = {}, .bytes = {}, .work = std::move(work)});
  }
  changed_.notify_one();
}

bool AddressResolution::send(std::shared_ptr<GroupQueue> queue, const GroupPeer& peer,
                             std::span<const std::byte> bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= kMostWaiting) return false;
    jobs_.push_back({.queue = std::move(queue), .peer = peer, .bytes = {bytes.begin(), bytes.end()}, .work = {}});
  }
  changed_.notify_one();
  return true;
}

std::size_t AddressResolution::take_failures() noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(failures_, 0);
}

GroupQueue::Sending AddressResolution::do_job(const Job& job) {
  if (job.work) {
    job.work();
    return GroupQueue::Sending::sent;
  }
  const GroupQueue::Sending sending = job.queue->send_to(job.peer, job.bytes, monotonic_now());
  if (sending != GroupQueue::Sending::no_handle || !job.queue->find_handle(job.peer, monotonic_now()).ok())
    return sending;
  return job.queue->send_to(job.peer, job.bytes, monotonic_now());
}

void AddressResolution::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_stopping_ || !jobs_.empty(); });
    if (is_stopping_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    GroupQueue::Sending sending = GroupQueue::Sending::failed;
    try {
      sending = do_job(job);
    } catch (const std::bad_alloc&) {
      // It counts as failed.
    }
    lock.lock();
    if (sending == GroupQueue::Sending::sent) continue;
    ++failures_;
    if (sending == GroupQueue::Sending::failed) continue;
    // Other jobs for the same address would wait just as long, and fail too.
    failures_ += std::erase_if(jobs_, [&](const Job& other) {
      return other.queue && other.queue == job.queue && other.peer.gid == job.peer.gid;
    });
  }
}

}  // namespace ripc::internal::verbs
