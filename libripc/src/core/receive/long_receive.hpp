// SPDX-License-Identifier: Apache-2.0
// Incoming messages with long items: where each item goes, and how far it has come. A message gets no windows while its
// sender still has something to do before the bytes can flow, so that slow senders do not hold windows.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "core/protocol/incoming.hpp"
#include "core/receive/inbox.hpp"
#include "core/receive/ports.hpp"
#include "core/receive/receive_counters.hpp"
#include "memory/pool.hpp"

namespace ripc::internal::core {

// One incoming message with long items.
struct LongReceive {
  // The next step.
  enum class Stage : std::uint8_t { prepare, pull, finish, deliver };

  std::shared_ptr<spi::Source> source;
  Message* message = nullptr;
  Stage stage = Stage::prepare;
  IncomingItems items;
  std::optional<wire::Descriptor> transfer;  // names the message's transfer; empty: nothing to pull
  std::size_t packet_size = 0;               // of the packet in the message's storage
  bool lend = false;
  bool unordered = false;  // neither waits for other messages of its source nor makes them wait
  bool any_lent = false;
  ripc_status failure = RIPC_OK;          // of the first item that was discarded
  Deadline deadline = Deadline::never();  // set when there is something to wait for
  bool extended = false;                  // the deadline was extended, because this process was not listening

  // The bytes of all items, or only of the missing ones.
  std::uint64_t bytes(bool missing_only = false) const noexcept;
  // Whether the sender only needs to learn that this item has arrived. A reply into a return buffer may still be
  // cancelled.
  bool ends_with(const IncomingItem& last) const noexcept;
  void enter(Stage next) noexcept {
    stage = next;
    deadline = Deadline::never();
    extended = false;
  }
};

// All incoming messages with long items of one service. Used by the receiving thread only, except for cancel_answer().
class LongReceives {
 public:
  struct Parts {
    Destinations destinations;
    memory::Pool& pool;
    const EventLoop& loop;  // in which transports receive the packets of senders
    Inbox& inbox;
    ReadClock& clock;
    const Ports& ports;
    ReceiveCounters& counters;
  };
  explicit LongReceives(const Parts& parts) noexcept : parts_(parts) {}

  bool empty() const noexcept { return receives_.empty(); }

  // Takes over the message. If there is no memory for everything that it may need later, throws std::bad_alloc and
  // changes nothing. RIPC_CORRUPT: the packet in the message has impossible contents. RIPC_AGAIN: the message is
  // unordered, and its source already has as many of these in progress as it may.
  ripc_status begin(spi::Source& source, Message* message, const wire::Packet& packet, bool lend,
                    const MessagePool& messages);
  // Whether an ordered packet of this source may be looked at. A short message waits for all messages before it; a long
  // one may proceed together with some of them.
  enum class Turn { now, long_only, later };
  Turn turn_of(const spi::Source& source, const MessagePool& messages) const noexcept;
  // Advances each message as far as its sender allows.
  void progress_all() noexcept;
  // Called when nothing more comes from this source.
  void source_gone(const spi::Source& source) noexcept;

  // Any thread. Called when a request is cancelled while its reply is on its way into the return buffers. When this
  // returns, nothing writes them any more, and their items fail. False: there is no such reply.
  bool cancel_answer(std::uint64_t request) noexcept;
  // Drops all messages; their senders get this status. False: there are none. May also be called without a receiving
  // thread.
  bool drop_all(ripc_status status) noexcept;

 private:
  // Totals of some messages of one source.
  struct Some {
    std::size_t messages = 0;
    std::uint64_t bytes = 0;
    bool placed = true;  // all of them have their windows
  };
  struct Ahead {
    Some ordered;
    Some unordered;
  };
  static bool may_begin_beside(const Some& others, const spi::Source& source, const MessagePool& messages) noexcept;
  // Totals of all messages of a source, or of those before `until`.
  Ahead look_ahead_of(const spi::Source& source, const LongReceive* until = nullptr) const noexcept;
  // Whether this message can be delivered only after another one.
  bool must_wait(const LongReceive& receive) const noexcept;
  bool windows_are_ahead() const noexcept;
  bool may_place(LongReceive& receive, const wire::Packet& packet) noexcept;
  bool progress(LongReceive& receive, const wire::Packet* packet = nullptr) noexcept;
  ripc_status prepare(LongReceive& receive) noexcept;
  ripc_status place_items(LongReceive& receive, const wire::Packet* packet) noexcept;
  ripc_status pull(LongReceive& receive) noexcept;
  ripc_status pull_item(LongReceive& receive, IncomingItem& item, Nanoseconds timeout) noexcept;
  ripc_status finish(LongReceive& receive) noexcept;
  void show(LongReceive& receive) noexcept;
  void drop(LongReceive& receive, ripc_status status) noexcept;
  template <typename Step>
  ripc_status attempt(LongReceive& receive, Nanoseconds timeout, Step&& step) noexcept;

  const Parts parts_;
  std::list<LongReceive> receives_;  // written under mutex_
  std::mutex mutex_;                 // taken before any lock of a transport: cancel_answer() comes from other threads
};

}  // namespace ripc::internal::core
