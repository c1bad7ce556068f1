// SPDX-License-Identifier: Apache-2.0
// The receiving half of a service: polls its ports, turns packets into messages, and waits for messages.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_epoch.hpp"
#include "core/receive/adaptive_spin.hpp"
#include "core/receive/inbox.hpp"
#include "core/receive/long_receive.hpp"
#include "core/receive/ports.hpp"
#include "core/receive/receive_counters.hpp"
#include "core/state/message.hpp"
#include "core/state/route_table.hpp"
#include "core/state/service_life.hpp"
#include "core/state/ticket.hpp"

namespace ripc::internal::core {

// One thread at a time receives. A second one gets an error, unless both begin within the same nanoseconds.
class Receiver final : private spi::PacketSink {
 public:
  struct Parts {
    ServiceLife& life;
    RouteTable& routes;  // learns addresses
    memory::Pool& pool;
    Destinations destinations;
    EventLoop& loop;           // the responder's
    const TicketSender& sent;  // for messages that the same service has sent
    Spin spin;
  };
  explicit Receiver(const Parts& parts) noexcept
      : life_(parts.life),
        routes_(parts.routes),
        memory_(parts.pool),
        loop_(parts.loop),
        sent_(parts.sent),
        spin_(parts.spin),
        long_receives_({parts.destinations, parts.pool, parts.loop, inbox_, clock_, ports_, counters_}) {}
  ~Receiver() {
    if (pool_ != nullptr) pool_->close();
  }

  // Called before anything else.
  Status open(std::vector<std::unique_ptr<spi::Transport>>& transports, const spi::PortOptions& options,
              MessagePools& pools, std::uint32_t max_messages);
  Ports& ports() noexcept { return ports_; }
  const Ports& ports() const noexcept { return ports_; }
  const ReceiveCounters& counters() const noexcept { return counters_; }

  ripc_status receive(std::uint32_t flags, Nanoseconds timeout, std::span<Message*> messages,
                      std::size_t& count) noexcept;

  // The time just before the messages came that receive() has returned. 0: they were there already. UINT64_MAX: nobody
  // read the clock.
  Nanoseconds came_after() const noexcept { return came_after_; }

  bool has_incomplete() const noexcept { return !long_receives_.empty(); }
  bool refuse_incomplete() noexcept { return long_receives_.drop_all(RIPC_REFUSED); }

  // Any thread.
  bool cancel_answer(std::uint64_t request) noexcept { return long_receives_.cancel_answer(request); }
  // Called when no thread receives any more.
  void end() noexcept;

 private:
  spi::Delivery deliver(spi::Source& source, spi::Bytes bytes, const Memory* room) noexcept override;
  void source_gone(spi::Source& source) noexcept override { long_receives_.source_gone(source); }
  Memory make_room(std::size_t size) noexcept override;
  // memory: holds the bytes, which are then not copied; or null.
  [[gnu::noinline]] spi::Delivery deliver_plain(spi::Source& source, spi::Bytes bytes, const Memory* memory) noexcept;
  // overtakes: the packet is offered before its turn, because it is marked as unordered.
  spi::Delivery deliver_special(spi::Source& source, spi::Bytes bytes, const Memory* memory, bool overtakes) noexcept;
  static bool keep(Message& message, spi::Bytes packet, const Memory& memory) noexcept;
  spi::Delivery reject() noexcept;
  // Leaves the packet where it is, because there is no memory for it now.
  spi::Delivery stop_without_memory() noexcept {
    out_of_memory_ = !pool_->exhausted();
    return spi::Delivery::stop;
  }
  // Learns the address of the service that the source leads to. The source's sink_data then holds the ID.
  void learn(spi::Source& source, ripc_service_id id) noexcept;
  void learn_address(spi::Source& source, ripc_service_id id) noexcept;
  void add_plain(Message* message, const spi::Source& from, std::uint64_t source, std::uint32_t tag, std::size_t items,
                 std::size_t bytes) noexcept {
    message->peer = from.facts().peer;
    message->item_count = static_cast<std::uint32_t>(items);
    message->tag = tag;
    message->source = source;
    if (bytes != 0) [[likely]] {
      increase(counters_.payload_messages);
      increase(counters_.short_bytes, bytes);
    } else {
      increase(counters_.other_messages);
    }
    inbox_.add(message);
  }

  std::size_t poll_ports() noexcept {
    if (inbox_.pending) [[unlikely]]
      poll_pending();
    took_ = false;
    out_of_memory_ = false;
    for (const auto& port : ports_) poll(*port);
    return inbox_.count();
  }
  void poll(spi::Port& port) noexcept {
    if (!inbox_.is_full() && port.poll(*this, inbox_.room()) != 0) took_ = true;
  }
  void poll_pending() noexcept;
  [[gnu::noinline]] ripc_status receive_later(Nanoseconds timeout, std::size_t& count) noexcept;
  ripc_status receive_nothing(std::size_t& count) noexcept;
  // The right of the receiving thread to move the bytes that it waits for.
  class Mover {
   public:
    Mover() = default;
    ~Mover() {
      if (events_ != nullptr) events_->set_looker({});
    }
    Mover(const Mover&) = delete;
    Mover& operator=(const Mover&) = delete;
    explicit operator bool() const noexcept { return static_cast<bool>(set_); }
    void borrow_from(SharedSet& set, EventSet& events) noexcept {
      if (set_) return;
      set_.borrow_from(set);
      if (!set_) return;
      events_ = &events;
      events.set_looker(std::this_thread::get_id());
    }
    bool look() const { return set_.look(); }
    int fd() const noexcept { return set_.fd(); }

   private:
    SharedSet::Borrowed set_;
    EventSet* events_ = nullptr;
  };
  // Whether bytes of messages that this service receives or has sent are on their way. If so, this thread moves them
  // itself from now on, unless another one does.
  bool has_bytes_under_way(Mover& mover) noexcept {
    if (long_receives_.empty() && !sent_.loop_serves()) return false;
    mover.borrow_from(loop_.shared(), life_.events());
    return true;
  }
  ripc_status sleep(Deadline deadline, Mover& mover) noexcept;

  ServiceLife& life_;
  RouteTable& routes_;
  memory::Pool& memory_;
  EventLoop& loop_;
  const TicketSender& sent_;
  AdaptiveSpin spin_;
  Ports ports_;
  MessagePool* pool_ = nullptr;
  std::atomic<bool> is_receiving_{false};
  std::uint32_t flags_ = 0;
  bool took_ = false;           // the last look at the ports took packets, whether they made messages or not
  bool out_of_memory_ = false;  // a packet was left where it is for lack of memory
  Inbox inbox_;
  ReadClock clock_;
  Nanoseconds came_after_ = 0;
  ReceiveCounters counters_;
  LongReceives long_receives_;
};

[[gnu::always_inline]] inline ripc_status Receiver::receive(std::uint32_t flags, Nanoseconds timeout,
                                                            std::span<Message*> messages, std::size_t& count) noexcept {
  // Avoids a locked instruction: the test is for incorrect programs, which soon fail it anyway.
  if (is_receiving_.load(std::memory_order_relaxed)) [[unlikely]]
    return RIPC_INVALID_ARGUMENT;
  is_receiving_.store(true, std::memory_order_relaxed);
  ports_.disarm();
  inbox_.open(messages);
  flags_ = flags;
  clock_.forget();
  came_after_ = 0;
  pool_->enter(ThreadEpoch::current());
  ripc_status status = RIPC_OK;
  if (life_.status() != RIPC_OK || poll_ports() == 0) {
    status = receive_later(timeout, count);
  } else {
    count = inbox_.count();
  }
  is_receiving_.store(false, std::memory_order_relaxed);
  return status;
}

}  // namespace ripc::internal::core
