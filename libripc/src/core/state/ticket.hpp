// SPDX-License-Identifier: Apache-2.0
// Tickets: the completion of messages with long items, and what keeps their memory until then.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "base/event_loop.hpp"
#include "memory/pool.hpp"
#include "spi/transport.hpp"

namespace ripc::internal::core {

class TicketKeeper;

// The part of a service that its tickets know.
struct TicketSender {
  // Any thread. Whether the loop's thread may have to answer a peer that pulls.
  bool loop_serves() const noexcept { return reported.load(std::memory_order_relaxed) != 0; }

  std::atomic<std::size_t> reported{0};  // open tickets whose end the peer reports
};

// One message on its way. Shared by the keeper, while it is open, and the application's handle.
class Ticket : public std::enable_shared_from_this<Ticket> {
 public:
  struct Parts {
    std::shared_ptr<spi::Channel> channel;
    std::uint64_t transfer = 0;
    std::shared_ptr<TicketSender> sender;  // not null
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
  // What the callback gets. The task that runs the callback owns it, too.
  struct Completion {
    ripc_ticket_callback callback;
    void* user;
    ripc_status status = RIPC_PENDING;
  };
  Ticket(TicketKeeper& keeper, Parts parts);
  void move_bytes(std::unique_lock<std::mutex>& lock, Deadline deadline, Nanoseconds spin) noexcept;

  TicketKeeper& keeper_;
  // Used by the keeper. The channel is released when the ticket ends, so that an unread ticket keeps no path open.
  Parts parts_;
  const bool is_reported_;  // the peer reports in any case when it has finished
  std::vector<memory::Hold> holds_;
  std::vector<spi::Bytes> ranges_;  // the exposed memory
  std::shared_ptr<Completion> completion_;
  EventLoop::Prepared calls_back_;       // posted when it completes
  bool drains_ = false;                  // it has ended, and the peer still reads
  std::shared_ptr<Ticket> drains_next_;  // in the keeper's list
  std::atomic<int> status_{RIPC_PENDING};
};

// All open tickets of a context. Finishes them when the transport reports their end, and at their timeout. Where a
// report costs the peer something, it is requested only if someone waits. The keeper then checks now and then while
// such tickets are open.
class TicketKeeper {
 public:
  explicit TicketKeeper(EventLoop& loop);
  ~TicketKeeper();
  TicketKeeper(const TicketKeeper&) = delete;
  TicketKeeper& operator=(const TicketKeeper&) = delete;

  using Key = std::pair<const spi::Channel*, std::uint64_t>;
  // A ticket that is not open yet, with everything that it will ever need.
  class Prepared {
   public:
    Prepared() = default;

   private:
    friend class TicketKeeper;
    std::map<Key, std::shared_ptr<Ticket>> ticket_;
    std::multimap<Nanoseconds, Ticket*> deadline_;
  };
  // Any thread. Called before the message is sent, because nothing may fail afterwards. A ticket that is not opened is
  // just dropped.
  Prepared prepare(Ticket::Parts parts);
  // Any thread. Called when the message was sent. From here on the keeper holds the memory, and knows its ranges.
  std::shared_ptr<Ticket> open(Prepared&& prepared, std::vector<memory::Hold>&& holds,
                               std::vector<spi::Bytes>&& ranges) noexcept;

  // Called by the transport. True: there was a ticket, which is now complete.
  bool transfer_finished(const spi::Channel& channel, std::uint64_t transfer, ripc_status status) noexcept;
  void channel_lost(const spi::Channel& channel) noexcept;

  // Ends the open tickets of a service (or those that expose memory overlapping a range) with `status`. When it returns
  // no receiver reads the memory any more, except through a lent view.
  void end_sender(const TicketSender& sender) noexcept;
  void end_range(spi::Bytes range) noexcept;
  // Any thread. Finishes all tickets that have ended or run out of time, and gives their memory back. The timer calls
  // it, and a pool that is full.
  void check_tickets() noexcept;
  // Ends everything; nothing is held afterwards.
  void shut_down() noexcept;

 private:
  friend class Ticket;
  // Holds the mutex. Threads that wait for a ticket that ended meanwhile, perhaps in a callback, are woken after the
  // mutex is released, because they take it at once.
  class Section {
   public:
    explicit Section(TicketKeeper& keeper) : keeper_(keeper), lock_(keeper.mutex_) {}
    ~Section() {
      const bool completed = std::exchange(keeper_.completed_, false);
      const bool loop_waits = keeper_.waits_in_loop_ != 0;
      const bool mover_waits = keeper_.is_moving_;
      lock_.unlock();
      if (!completed) return;
      keeper_.changed_.notify_all();
      if (loop_waits) keeper_.loop_.wake_from_elsewhere();
      if (mover_waits) keeper_.loop_.shared().wake();
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;
    std::unique_lock<std::mutex>& lock() noexcept { return lock_; }

   private:
    TicketKeeper& keeper_;
    std::unique_lock<std::mutex> lock_;
  };

  // All of these are called under the mutex. With `notify`: if the ticket is not finished, a report of its end is
  // requested.
  bool try_finish(Ticket& ticket, bool notify = false) noexcept;
  bool try_end(Ticket& ticket, ripc_status status) noexcept;
  void complete(Ticket& ticket, ripc_status status) noexcept;
  void forget_deadline(const Ticket& ticket) noexcept;
  // Keeps the ticket's memory until the peer no longer reads it.
  void keep_draining(Ticket& ticket) noexcept;
  // Calls `visit` for each open ticket, which may end it.
  template <typename Visit>
  void for_each(Visit visit) noexcept;
  template <typename Matches>
  void end_matching(Matches matches, ripc_status status) noexcept;
  void drain() noexcept;
  void schedule() noexcept;

  EventLoop& loop_;
  EventLoop::TimerId timer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool completed_ = false;  // some ticket completed since changed_ was notified
  int waits_in_loop_ = 0;   // waits made by callbacks
  bool is_moving_ = false;  // a thread waits for a ticket, and meanwhile handles what the loop shares
  // Only prepare() allocates. These are trees because their nodes can be made in advance.
  std::map<Key, std::shared_ptr<Ticket>> tickets_;
  std::size_t looked_for_ = 0;  // tickets in it whose end nobody may report
  std::multimap<Nanoseconds, Ticket*> deadlines_;
  std::shared_ptr<Ticket> draining_;  // the first of those that ended while the peer may still be reading
  Nanoseconds timer_at_ = UINT64_MAX;
  Backoff pause_{5'000'000, 1'000'000'000};  // until the next look
};

}  // namespace ripc::internal::core
