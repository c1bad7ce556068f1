// SPDX-License-Identifier: Apache-2.0
// A queue that allocates nothing: its elements are linked by their own `next`.
#pragma once

namespace ripc::internal::rpc {

// First in, first out. Owns nothing; each object is in at most one queue at a time. One thread at a time.
template <typename T>
class Fifo {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  void push(T& one) noexcept {
    one.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &one;
    last_ = &one;
  }
  // The queue must not be empty.
  T& pop() noexcept {
    T& one = *first_;
    first_ = one.next;
    return one;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;  // undefined while it is empty
};

}  // namespace ripc::internal::rpc
