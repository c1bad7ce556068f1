// SPDX-License-Identifier: Apache-2.0
#include "rpc/recorder.hpp"

#include <utility>

#include "rpc/server.hpp"

namespace ripc::internal::rpc {

Recorder::~Recorder() {
  Event event;
  while (take({&event, 1}) != 0) {
    ripc_request_refuse(event.request, RIPC_CLOSED);
    if (event.request == nullptr) ripc_message_release(event.result.message);
  }
}

Handler Recorder::handler(void* user) {
  const std::lock_guard lock(mutex_);
  methods_.push_back(std::make_unique<Method>(Method{this, user}));
  return {&Recorder::requested, methods_.back().get(), false};
}

void Recorder::requested(void* method, ripc_request* request) noexcept {
  Recorder& self = *static_cast<Method*>(method)->recorder;
  self.requests_.push(*request);
  self.count_.fetch_add(1, std::memory_order_relaxed);
}

Recorder::Expected& Recorder::expect(void* user) {
  const std::lock_guard lock(mutex_);
  if (free_ == nullptr) {
    all_.push_back(std::make_unique<Expected>());
    free_ = all_.back().get();
    free_->recorder = this;
  }
  Expected& expected = *free_;
  free_ = std::exchange(expected.next, nullptr);
  expected.event.user = user;
  return expected;
}

void Recorder::forget(Expected& expected) noexcept {
  const std::lock_guard lock(mutex_);
  expected.next = std::exchange(free_, &expected);
}

void Recorder::ended(void* expected, const ripc_call_result* result) noexcept {
  auto& end = *static_cast<Expected*>(expected);
  end.event.result = *result;
  Recorder& self = *end.recorder;
  const std::lock_guard lock(self.mutex_);
  self.ended_.push(end);
  self.count_.fetch_add(1, std::memory_order_release);
}

std::size_t Recorder::take(std::span<Event> to) noexcept {
  mutex_.adopt();
  if (empty()) return 0;
  std::size_t count = 0;
  while (count < to.size() && !requests_.empty()) {
    ripc_request& request = requests_.pop();
    to[count].user = static_cast<Method*>(request.handler->user)->user;
    to[count++].request = &request;
  }
  const std::lock_guard lock(mutex_);
  while (count < to.size() && !ended_.empty()) {
    Expected& end = ended_.pop();
    to[count++] = end.event;
    end.next = std::exchange(free_, &end);
  }
  count_.fetch_sub(count, std::memory_order_relaxed);
  return count;
}

}  // namespace ripc::internal::rpc
