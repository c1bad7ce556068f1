// SPDX-License-Identifier: Apache-2.0
// The messages that one call of receive() gives out, and those that wait for the next one.
#pragma once

#include <cstddef>
#include <span>

#include "base/clock.hpp"
#include "core/state/message.hpp"

namespace ripc::internal::core {

// The receiving thread's.
class Inbox {
 public:
  Inbox() = default;
  ~Inbox() {
    while (Message* message = ready_) {
      ready_ = message->next;
      MessagePool::release(message);
    }
  }
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // From now on they are given out here.
  void open(std::span<Message*> output) noexcept {
    output_ = output;
    count_ = 0;
  }
  std::span<Message*> output() const noexcept { return output_; }
  std::size_t count() const noexcept { return count_; }
  std::size_t room() const noexcept { return output_.size() - count_; }
  bool is_full() const noexcept { return count_ >= output_.size(); }

  // To the caller of receive(), or, if there is no room left, to the next one.
  void add(Message* message) noexcept {
    if (count_ < output_.size()) [[likely]] {
      output_[count_++] = message;
    } else {
      add_later(message);
    }
  }
  // What waits, as far as there is room. True if some are left.
  bool give_waiting() noexcept {
    while (ready_ != nullptr && !is_full()) {
      output_[count_++] = ready_;
      ready_ = ready_->next;
    }
    return ready_ != nullptr;
  }
  bool has_waiting() const noexcept { return ready_ != nullptr; }

  // Something waits here, or in the long receives.
  bool pending = false;

 private:
  [[gnu::noinline]] void add_later(Message* message) noexcept {
    message->next = nullptr;
    (ready_ != nullptr ? last_ready_->next : ready_) = message;
    last_ready_ = message;
    pending = true;
  }

  std::span<Message*> output_;
  std::size_t count_ = 0;
  Message* ready_ = nullptr;  // linked by their `next`, in order
  Message* last_ready_ = nullptr;
};

// What the clock said when it was read last, since the last sleep, or some work.
class ReadClock {
 public:
  Nanoseconds now() noexcept { return now_ != 0 ? now_ : now_ = monotonic_now(); }
  // It has to be read again.
  void forget() noexcept { now_ = 0; }

 private:
  Nanoseconds now_ = 0;
};

}  // namespace ripc::internal::core
