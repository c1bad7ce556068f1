// SPDX-License-Identifier: Apache-2.0
// Real devices that are altered to claim other abilities, or to count what they are asked for.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "transport/verbs/device/device_list.hpp"

namespace ripc::internal::verbs {

// A copy of the device that claims windows that are as narrow as they should be.
inline DevicePointer with_narrow_windows(const DevicePointer& device) {
  auto* const copy = new Device;
  copy->library = device->library;
  copy->context = device->context;
  copy->pd = device->pd;
  copy->name = device->name;
  copy->iwarp = device->iwarp;
  copy->windows = copy->narrow_windows = true;
  copy->invalidated_flags = device->invalidated_flags;
  copy->read_depth = device->read_depth;
  copy->max_message = device->max_message;
  return {copy, [device](Device* one) {
            // These belong to the real device.
            one->context = nullptr;
            one->pd = nullptr;
            delete one;
          }};
}

// Counts the registrations of memory with any device. Only one may exist at a time.
class Registrations {
 public:
  explicit Registrations(const DeviceList& devices) : library_(const_cast<VerbsLibrary&>(*devices.library())) {
    count_ = 0;
    {
      const std::lock_guard lock(mutex_);
      open_.clear();
    }
    real_ = std::exchange(library_.reg_mr, counted);
    real_end_ = std::exchange(library_.dereg_mr, ended);
  }
  ~Registrations() {
    library_.reg_mr = real_;
    library_.dereg_mr = real_end_;
  }
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // Registrations since construction; and those of them that have not ended.
  std::uint64_t count() const { return count_; }
  std::size_t open() const {
    const std::lock_guard lock(mutex_);
    return open_.size();
  }

 private:
  static ibv_mr* counted(ibv_pd* domain, void* start, std::size_t size, int access) {
    ibv_mr* const made = real_(domain, start, size, access);
    if (made == nullptr) return made;
    ++count_;
    const std::lock_guard lock(mutex_);
    open_.insert(made);
    return made;
  }
  static int ended(ibv_mr* registration) {
    {
      const std::lock_guard lock(mutex_);
      open_.erase(registration);
    }
    return real_end_(registration);
  }

  static inline decltype(VerbsLibrary::reg_mr) real_ = nullptr;
  static inline decltype(VerbsLibrary::dereg_mr) real_end_ = nullptr;
  static inline std::atomic<std::uint64_t> count_{0};
  static inline std::mutex mutex_;
  static inline std::set<const ibv_mr*> open_;  // under mutex_
  VerbsLibrary& library_;
};

// A queue of completions that brings the first datagram that comes to it again and again, as if a peer sent it without
// end. Only one may exist at a time.
class EndlessQueue {
 public:
  // After `most` looks, nothing comes any more.
  EndlessQueue(ibv_cq* queue, std::uint64_t most) : context_(queue->context) {
    queue_ = queue;
    most_ = most;
    looks_ = 0;
    has_example_ = false;
    real_ = std::exchange(context_->ops.poll_cq, look);
  }
  ~EndlessQueue() { context_->ops.poll_cq = real_; }
  EndlessQueue(const EndlessQueue&) = delete;
  EndlessQueue& operator=(const EndlessQueue&) = delete;

  // Since the first datagram came.
  std::uint64_t looks() const { return looks_; }

 private:
  static int look(ibv_cq* queue, int count, ibv_wc* completions) {
    if (queue != queue_) return real_(queue, count, completions);
    const std::lock_guard lock(mutex_);
    if (!has_example_) {
      const int taken = real_(queue, count, completions);
      has_example_ = taken > 0;
      if (has_example_) example_ = *completions;
      return taken;
    }
    if (++looks_ > most_) return 0;
    std::fill_n(completions, count, example_);
    return count;
  }

  static inline decltype(ibv_context_ops::poll_cq) real_ = nullptr;
  static inline ibv_cq* queue_ = nullptr;
  static inline std::uint64_t most_ = 0;
  static inline std::atomic<std::uint64_t> looks_{0};
  static inline std::mutex mutex_;
  static inline bool has_example_ = false;  // under mutex_, as the next one
  static inline ibv_wc example_{};
  ibv_context* const context_;
};

}  // namespace ripc::internal::verbs
