// SPDX-License-Identifier: Apache-2.0
// How long memory stays mapped. It decides whether memory may be read and written in place, or only by the kernel,
// which says where it is missing.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace ripc::internal::memory {

// A range that the application registered.
struct Registration {
  std::uint64_t count = 0;  // how often; the pool's
  std::shared_mutex mutex;  // shared: the memory is pinned
  bool ended = false;
};

// As long as one lives, its memory stays mapped. Empty: it may be unmapped at any time. Held for one system call at
// most, because the end of a registration waits for it.
class Pin {
 public:
  Pin() noexcept = default;
  explicit operator bool() const noexcept { return is_pinned_; }

 private:
  friend class Residence;
  bool is_pinned_ = false;
  std::shared_lock<std::shared_mutex> lock_;
};

// What keeps some memory mapped. Any thread.
class Residence {
 public:
  // Nothing does.
  Residence() noexcept = default;
  // The pool. What pins its leases holds them.
  static Residence pooled() noexcept {
    Residence residence;
    residence.is_pooled_ = true;
    return residence;
  }
  // The application has promised it; null: it has not.
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
