// SPDX-License-Identifier: Apache-2.0
// How long memory stays mapped. This decides whether the library may read and write memory in place, or only through
// the kernel, which reports missing memory.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace ripc::internal::memory {

// A range that the application registered.
struct Registration {
  std::uint64_t count = 0;  // how often it is registered; owned by the pool
  std::shared_mutex mutex;  // shared: the memory is pinned
  bool ended = false;
};

// As long as a Pin lives, its memory stays mapped. Empty: the memory may be unmapped at any time. Hold a Pin for at
// most one system call, because the end of a registration waits for it.
class Pin {
 public:
  Pin() noexcept = default;
  explicit operator bool() const noexcept { return is_pinned_; }

 private:
  friend class Residence;
  bool is_pinned_ = false;
  std::shared_lock<std::shared_mutex> lock_;
};

// Says what keeps a range of memory mapped. Any thread.
class Residence {
 public:
  // Nothing keeps it mapped.
  Residence() noexcept = default;
  // The pool keeps it mapped. Code that pins a lease also holds it.
  static Residence pooled() noexcept {
    Residence residence;
    residence.is_pooled_ = true;
    return residence;
  }
  // The application has promised to keep it mapped; null: it has not.
  explicit Residence(std::shared_ptr<Registration> registration) noexcept : registration_(std::move(registration)) {}

  Pin pin() const noexcept {
    Pin pin;
    pin.is_pinned_ = is_pooled_;
    if (!registration_) return pin;
    pin.lock_ = std::shared_lock(registration_->mutex);
    pin.is_pinned_ = !registration_->ended;
    return pin;
  }

 private:
  bool is_pooled_ = false;
  std::shared_ptr<Registration> registration_;
};

}  // namespace ripc::internal::memory
