// SPDX-License-Identifier: Apache-2.0
// Messages with long items on their way in: where each item goes, and how far it is. A message has no windows as long
// as its sender has something to do before its bytes can flow. Windows are for senders that deliver.
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

// One of them.
struct LongReceive {
  // What there is to do next.
  enum class Stage : std::uint8_t { prepare, pull, finish, deliver };

  std::shared_ptr<spi::Source> source;
  Message* message = nullptr;
  Stage stage = Stage::prepare;
  IncomingItems items;
  std::optional<wire::Descriptor> transfer;  // names the message's transfer; empty: nothing to pull
  std::size_t packet_size = 0;               // of the packet in the message's storage
  bool lend = false;
  bool unordered = false;  // neither waits for others of its source nor lets them wait
  bool any_lent = false;
  ripc_status failure = RIPC_OK;          // of the first item that was discarded
  Deadline deadline = Deadline::never();  // set when there is something to wait for
  bool extended = false;                  // the deadline, because this process was not listening

  // Of all items, or of those that are still missing.
  std::uint64_t bytes(bool missing_only = false) const noexcept;
  // Whether there is no more to say to the sender than that this item is there. A reply into a return buffer may still
  // be cancelled.
  bool ends_with(const IncomingItem& last) const noexcept;
  void enter(Stage next) noexcept {
    stage = next;
    deadline = Deadline::never();
    extended = false;
  }
};

// All of one service. The receiving thread's, but for cancel_answer().
class LongReceives {
 public:
  struct Parts {
    Destinations destinations;
    memory::Pool& pool;
    const EventLoop& loop;  // in which transports receive what senders say
    Inbox& inbox;
    ReadClock& clock;
    const Ports& ports;
    ReceiveCounters& counters;
  };
  explicit LongReceives(const Parts& parts) noexcept : parts_(parts) {}

  bool empty() const noexcept { return receives_.empty(); }

  // Takes over the message, unless there is no memory for all that it may need on its way (std::bad_alloc): then
  // nothing has happened. RIPC_CORRUPT: the packet, which lies in the message, says what cannot be. RIPC_AGAIN: it is
  // unordered, and the source has as many such messages under way as it may.
  ripc_status begin(spi::Source& source, Message* message, const wire::Packet& packet, bool lend,
                    const MessagePool& messages);
  // Whether an ordered packet of this source may be looked at. A short message waits for all that are before it; a long
  // one may go on beside some of them.
  enum class Turn { now, long_only, later };
  Turn turn_of(const spi::Source& source, const MessagePool& messages) const noexcept;
  // Goes on with each as far as its sender lets it.
  void progress_all() noexcept;
  // Nothing more comes from this source.
  void source_gone(const spi::Source& source) noexcept;

  // Any thread. The request is cancelled while the reply to it is on its way into its return buffers. When this has
  // returned, nothing writes them any more, and their items fail. False: there is no such reply.
  bool cancel_answer(std::uint64_t request) noexcept;
  // Their senders get this status. False: there is none. Also without a receiving thread.
  bool drop_all(ripc_status status) noexcept;

 private:
  // Messages of one source.
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
  // Of all, or of those that come before one of them.
  Ahead look_ahead_of(const spi::Source& source, const LongReceive* until = nullptr) const noexcept;
  // Whether it is delivered only after another one.
  bool must_wait(const LongReceive& receive) const noexcept;
  bool windows_are_ahead() const noexcept;
  bool may_place(const LongReceive& receive, const wire::Packet& packet) const noexcept;
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
