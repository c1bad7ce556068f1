// SPDX-License-Identifier: Apache-2.0
// The messages that one call of receive() returns, and those that wait for the next call.
#pragma once

#include <cstddef>
#include <span>

#include "base/clock.hpp"
#include "core/state/message.hpp"

namespace ripc::internal::core {

// Used by the receiving thread only.
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

  // From now on, messages go to `output`.
  void open(std::span<Message*> output) noexcept {
    output_ = output;
    count_ = 0;
  }
  std::span<Message*> output() const noexcept { return output_; }
  std::size_t count() const noexcept { return count_; }
  std::size_t room() const noexcept { return output_.size() - count_; }
  bool is_full() const noexcept { return count_ >= output_.size(); }

  // Gives the message to the caller of receive() or, if there is no room left, to the next call.
  void add(Message* message) noexcept {
    if (count_ < output_.size()) [[likely]] {
      output_[count_++] = message;
    } else {
      add_later(message);
    }
  }
  // Gives out the waiting messages, as far as there is room. True if some are left.
  bool give_waiting() noexcept {
    while (ready_ != nullptr && !is_full()) {
      output_[count_++] = ready_;
      ready_ = ready_->next;
    }
    return ready_ != nullptr;
  }
  bool has_waiting() const noexcept { return ready_ != nullptr; }

  // Messages wait here, or in the long receives.
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

// The last reading of the clock. It is forgotten after a sleep or some work.
class ReadClock {
 public:
  Nanoseconds now() noexcept { return now_ != 0 ? now_ : now_ = monotonic_now(); }
  // The clock has to be read again.
  void forget() noexcept { now_ = 0; }

 private:
  Nanoseconds now_ = 0;
};

}  // namespace ripc::internal::core
