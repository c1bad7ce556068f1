// SPDX-License-Identifier: Apache-2.0
// Requests and ends of calls that have no callback: they wait here until the application reads them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/biased_mutex.hpp"
#include "ripc/rpc.h"
#include "rpc/fifo.hpp"
#include "rpc/workers.hpp"

namespace ripc::internal::rpc {

class Recorder {
 public:
  // Either a request, which the reader then owns, or the end of a call.
  struct Event {
    void* user = nullptr;
    ripc_request* request = nullptr;
    ripc_call_result result;
  };
  struct Expected {
    Recorder* recorder = nullptr;
    Expected* next = nullptr;
    Event event;
  };

  // Drops the ends that nobody has read, and refuses the requests.
  ~Recorder();

  // ---- Any thread ----
  bool empty() const noexcept { return count_.load(std::memory_order_acquire) == 0; }
  // A handler that records its requests.
  Handler handler(void* user);
  // Prepares for a call whose `done` is ended(), with the result as its user, so that its end allocates nothing.
  Expected& expect(void* user);
  // Undoes expect() for a call that did not begin.
  void forget(Expected& expected) noexcept;
  static void ended(void* expected, const ripc_call_result* result) noexcept;

  // ---- The thread that runs the endpoint ----
  // Takes as many events as there are and as `to` has room for. Returns how many.
  std::size_t take(std::span<Event> to) noexcept;

 private:
  struct Method {
    Recorder* recorder;
    void* user;
  };
  static void requested(void* method, ripc_request* request) noexcept;

  std::atomic<std::size_t> count_{0};
  Fifo<ripc_request> requests_;
  BiasedMutex mutex_;  // guards the members below
  std::vector<std::unique_ptr<Method>> methods_;
  std::vector<std::unique_ptr<Expected>> all_;
  Expected* free_ = nullptr;
  Fifo<Expected> ended_;
};

}  // namespace ripc::internal::rpc
