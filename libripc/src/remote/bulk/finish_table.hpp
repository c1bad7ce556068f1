// SPDX-License-Identifier: Apache-2.0
// The transfers of the peer that this side has begun, until the peer has answered how they end.
//
//   begun -> telling -> answered(outcome)    gone when the receiver has asked; at once if it does not want to know
//
// Any thread may call anything. Frames go by FrameSender::enqueue(): the caller flushes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/event_loop.hpp"
#include "remote/bulk/frame_sender.hpp"
#include "wire/packet.hpp"

namespace ripc::internal::remote {

class FinishTable {
 public:
  // As Bulk::begin, forget, died.
  ripc_status begin(const wire::Descriptor& descriptor) noexcept;
  void forget(const EventSet& events) noexcept;
  void died() noexcept;

  // As Bulk::finish. Reports the end over `connection`. If that is null or lost, the report waits for tell(), and
  // `unsent` becomes true.
  ripc_status finish(const wire::Descriptor& descriptor, ripc_status status, EventSet& events,
                     const std::shared_ptr<FrameSender>& connection, bool& unsent) noexcept;

  // Reports RIPC_OK before finish() is called; finish() then only asks for the outcome. `events` is woken when the
  // outcome is there. `remote_key`: a key of the peer's, on this connection, that ends with the transfer; 0: none.
  // False: nothing was sent.
  bool tell_early(const wire::Descriptor& descriptor, EventSet& events, FrameSender& connection,
                  std::uint32_t remote_key = 0) noexcept;

  // Sends the reports that could not be sent so far, or whose connection was lost.
  void tell(FrameSender& connection) noexcept;
  void connection_lost(const FrameSender& connection) noexcept;
  // The peer's answer. It is ignored if no thread waits for it. Destroying the result wakes the thread that waits, so
  // do that without locks held.
  EventSet::Waker answered(const wire::bulk::Frame& frame) noexcept;

  // Whether an answer is due: on this connection; to a report that was not even sent.
  bool is_owed(const FrameSender& connection) const noexcept;
  bool has_backlog() const noexcept;

 private:
  enum class State : std::uint8_t { begun, telling, answered };
  struct Entry {
    std::uint64_t location = 0;
    State state = State::begun;
    ripc_status status = RIPC_OK;   // for the peer
    ripc_status outcome = RIPC_OK;  // what it said
    bool wanted = false;            // someone will ask for the outcome
    EventSet* events = nullptr;
    const FrameSender* connection = nullptr;  // where it was sent; null: nowhere
  };

  static wire::bulk::Frame frame_of(std::uint64_t key, const Entry& entry, std::uint32_t remote_key = 0) noexcept;

  mutable std::mutex mutex_;
  bool dead_ = false;
  std::unordered_map<std::uint64_t, Entry> entries_;  // by key
  // The key that was begun last in each of the peer's slots: a packet that announces a transfer may come again.
  std::vector<std::uint64_t> begun_;
};

}  // namespace ripc::internal::remote
