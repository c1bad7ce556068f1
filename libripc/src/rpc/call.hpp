// SPDX-License-Identifier: Apache-2.0
// One call of a client, from its begin to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/state/ticket.hpp"
#include "ripc/rpc.h"
#include "rpc/kept_items.hpp"
#include "rpc/loan.hpp"
#include "rpc/method_record.hpp"
#include "rpc/timer_wheel.hpp"
#include "wire/call.hpp"

namespace ripc::internal::rpc {

class CallQueue;
struct ClientSession;

struct CallRequest {
  ripc_service_id to = 0;
  std::uint32_t method = 0;
  std::span<const ripc_item> items{};
  std::span<const ripc_return_buffer> returns{};
  Nanoseconds now = 0;
  bool is_rough = false;  // `now` is: Messenger::rough_now()
  Nanoseconds deadline = UINT64_MAX;
  bool is_idempotent = false;
  ripc_ticket_callback loan_ended = nullptr;
  void* loan_user = nullptr;
  ripc_call_done done = nullptr;
  void* user = nullptr;
};

struct Call : TimerWheel::Timer {
  Call() noexcept : Timer(Of::call) {}
  enum class State : std::uint8_t {
    free,
    queued,   // waits for the path, a session, a slot or room
    sending,  // a thread is in Messenger::send()
    sent,
    ended,  // `result` is to be reported
  };
  State state = State::free;
  bool is_in_send = false;      // a thread is in Messenger::send(); the end is reported when it has returned
  bool is_kept = false;         // `arguments` has everything that would have to be sent again
  bool is_with_server = false;  // the server said that it has the call
  bool is_withdrawn = false;    // the call was lost with its path; the server is asked not to run it
  bool is_idempotent = false;
  bool perhaps_ran = false;  // at a group member that it has left
  bool is_final = false;     // it moves to no other member
  bool had_session = false;  // there was one with its server when it ended
  bool was_held_back = false;
  bool is_probe = false;  // counts in the session's ProbeWindow
  bool is_timed = false;  // `begun` and `sent_at` are exact, and how long it takes counts
  std::uint32_t index = 0;
  std::uint32_t generation = 1;  // of the index; the two make up the call's name
  std::uint32_t number = 0;      // in its session, once it has a slot
  std::uint32_t method = 0;
  std::uint32_t repeats = 0;
  ClientSession* session = nullptr;
  ripc_service_id group = 0;              // the group that was called; 0: none
  std::vector<ripc_service_id> tried;     // group members that it has left
  MethodRecord* record = nullptr;         // of its method; nullptr: there are too many methods
  ripc_status refusal = RIPC_NO_SERVICE;  // by the last member that it has left
  Nanoseconds deadline = UINT64_MAX;
  Nanoseconds begun = 0;
  Nanoseconds sent_at = 0;
  Nanoseconds repeat_at = UINT64_MAX;
  Nanoseconds repeat_pause = 0;
  KeptItems arguments;  // kept while the call waits or may have to be repeated
  std::vector<ripc_return_buffer> returns;
  std::optional<wire::call::Header> end_state;  // the end that the server reported while the call was in send()
  std::vector<std::uint64_t> requests;          // name the return buffers in core, one for each time that it was sent
  std::shared_ptr<core::Ticket> ticket;         // of the items that travel long
  Loan* loan = nullptr;                         // of LONG arguments; nullptr: the caller does not ask for its end
  ripc_call_done done = nullptr;
  void* user = nullptr;
  ripc_call_result result{};
  Call* previous = nullptr;  // in `queue`
  Call* next = nullptr;      // in `queue`, or among the free ones
  CallQueue* queue = nullptr;

  std::uint64_t name() const noexcept { return std::uint64_t{generation} << 32 | index; }
  // Prepares the call for a server that has not had it yet.
  void start_anew() noexcept {
    state = State::queued;
    repeats = 0;
    repeat_at = UINT64_MAX;
    is_with_server = is_withdrawn = was_held_back = false;
    requests.clear();
    result = {};
    result.size = sizeof result;
  }
};

// A queue that calls may leave from any place, and return to at the front.
class CallQueue {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  std::size_t size() const noexcept { return size_; }
  Call* front() const noexcept { return first_; }
  void push(Call& call) noexcept { insert(call, last_, nullptr); }
  void push_front(Call& call) noexcept { insert(call, nullptr, first_); }
  // False: the call is not in this queue.
  bool remove(Call& call) noexcept {
    if (call.queue != this) return false;
    (call.previous == nullptr ? first_ : call.previous->next) = call.next;
    (call.next == nullptr ? last_ : call.next->previous) = call.previous;
    call.previous = call.next = nullptr;
    call.queue = nullptr;
    --size_;
    return true;
  }

 private:
  void insert(Call& call, Call* previous, Call* next) noexcept {
    call.previous = previous;
    call.next = next;
    (previous == nullptr ? first_ : previous->next) = &call;
    (next == nullptr ? last_ : next->previous) = &call;
    call.queue = this;
    ++size_;
  }

  Call* first_ = nullptr;
  Call* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ripc::internal::rpc
