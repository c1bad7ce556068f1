// SPDX-License-Identifier: Apache-2.0
// Tickets: the completion of messages with long items, and who keeps their memory until then.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "memory/pool.hpp"
#include "spi/transport.hpp"

namespace ripc::core {

class TicketKeeper;

// One message on its way. Shared by the keeper, while it is open, and the application's handle.
class Ticket : public std::enable_shared_from_this<Ticket> {
 public:
  struct Parts {
    std::shared_ptr<spi::Channel> channel;
    std::uint64_t transfer = 0;
    const void* sender = nullptr;  // the service, which another one may follow under its ID
    std::vector<memory::Hold> holds;
    std::vector<spi::Bytes> ranges;  // what is exposed
    Nanoseconds deadline = UINT64_MAX;
    ripc_ticket_callback callback = nullptr;
    void* user = nullptr;
  };

  // Any thread.
  ripc_status poll() noexcept;
  ripc_status wait(Deadline deadline, Nanoseconds spin) noexcept;
  ripc_status cancel() noexcept;

 private:
  friend class TicketKeeper;
  Ticket(TicketKeeper& keeper, Parts parts)
      : keeper_(keeper), parts_(std::move(parts)), is_told_(parts_.channel->watches_for_free()) {}

  TicketKeeper& keeper_;
  // The keeper's. The channel goes when the ticket ends: a path is not held by who has not looked yet.
  Parts parts_;
  const bool is_told_;  // the peer says when it has finished anyway
  std::atomic<int> status_{RIPC_PENDING};
};

// All open tickets of a context. Finishes them on word from the transport, on time-out, and, where word costs the peer
// something and is asked for only if somebody waits, by looking now and then while any are open.
class TicketKeeper {
 public:
  explicit TicketKeeper(EventLoop& loop) : loop_(loop) {}
  ~TicketKeeper();

  // Any thread.
  std::shared_ptr<Ticket> open(Ticket::Parts parts);

  // From the transport.
  void transfer_finished(const spi::Channel& channel, std::uint64_t transfer) noexcept;
  void channel_lost(const spi::Channel& channel) noexcept;

  // Ends the open tickets of a service (or those that expose memory overlapping a range) with `status`. When it returns
  // no receiver reads the memory any more, except through a lent view.
  void end_sender(const void* sender) noexcept;
  void end_range(spi::Bytes range) noexcept;
  // Ends everything; nothing is held afterwards.
  void shut_down() noexcept;

 private:
  friend class Ticket;
  using Key = std::pair<const spi::Channel*, std::uint64_t>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept {
      return std::hash<const void*>()(key.first) ^ std::hash<std::uint64_t>()(key.second);
    }
  };
  // Memory of a ticket that ended while the peer may still be reading.
  struct Draining {
    std::shared_ptr<spi::Channel> channel;
    std::uint64_t transfer;
    bool lent;
    std::vector<memory::Hold> holds;
  };

  // Holds the mutex. Whoever waits for what ended meanwhile is woken when it was let go: it takes the mutex at once.
  class Section {
   public:
    explicit Section(TicketKeeper& keeper) : keeper_(keeper), lock_(keeper.mutex_) {}
    ~Section() {
      const bool completed = std::exchange(keeper_.completed_, false);
      lock_.unlock();
      if (completed) keeper_.changed_.notify_all();
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;
    std::unique_lock<std::mutex>& lock() noexcept { return lock_; }

   private:
    TicketKeeper& keeper_;
    std::unique_lock<std::mutex> lock_;
  };

  bool try_finish(Ticket& ticket) noexcept;                    // under the mutex
  bool try_end(Ticket& ticket, ripc_status status) noexcept;   // under the mutex
  void complete(Ticket& ticket, ripc_status status) noexcept;  // under the mutex
  void end_matching(const std::function<bool(const Ticket&)>& matches, ripc_status status) noexcept;
  void drain() noexcept;     // under the mutex
  void schedule() noexcept;  // under the mutex
  void look() noexcept;      // timer

  EventLoop& loop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool completed_ = false;  // some ticket, since changed_ was notified
  std::unordered_map<Key, std::shared_ptr<Ticket>, KeyHash> tickets_;
  std::size_t looked_for_ = 0;  // of them: those that nobody may tell of
  std::multimap<Nanoseconds, Ticket*> deadlines_;
  std::vector<Draining> draining_;
  EventLoop::TimerId timer_ = 0;
  Nanoseconds timer_at_ = UINT64_MAX;
  Nanoseconds pause_ = 0;  // until the next look
};

}  // namespace ripc::core
