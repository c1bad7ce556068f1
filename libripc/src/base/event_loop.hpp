// SPDX-License-Identifier: Apache-2.0
// An epoll loop for the responder thread, and the set of descriptors one service waits on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/clock.hpp"
#include "base/event_signal.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {

// Descriptors that wake the receiver of one service. Edge-triggered. Any thread; wait() and drain() by one at a time.
class EventSet {
  // An eventfd, and whether it was made readable since someone has looked.
  struct Wake {
    UniqueFd fd;
    std::atomic<bool> is_rung{false};
    std::atomic<bool> has_doorbells{false};

    void ring() noexcept {
      if (!is_rung.exchange(true, std::memory_order_acq_rel)) signal_event(fd.get());
    }
  };

 public:
  enum class Kind {
    doorbell,  // a datagram socket that only wakes: emptied when it was reported
    packets,   // a datagram socket that someone else reads
  };

  static Result<EventSet> create();
  EventSet(EventSet&&) noexcept = default;
  EventSet& operator=(EventSet&&) noexcept = default;

  Status add(int fd, Kind kind = Kind::doorbell) noexcept;
  // Closing a descriptor removes it only when no duplicate is open elsewhere; so remove it first.
  void remove(int fd) noexcept;
  int fd() const noexcept { return epoll_.get(); }
  // Makes it readable. No system call if it was woken already and has not looked since. Async-signal-safe.
  void wake() const noexcept { wake_->ring(); }
  // Makes it readable when it goes, if the set is still there.
  class Waker {
   public:
    Waker() = default;
    Waker(Waker&&) noexcept = default;
    Waker& operator=(Waker&&) noexcept = default;
    explicit operator bool() const noexcept { return wake_ != nullptr; }
    ~Waker() {
      if (wake_) wake_->ring();
    }

   private:
    friend class EventSet;
    explicit Waker(std::shared_ptr<Wake> wake) noexcept : wake_(std::move(wake)) {}
    std::shared_ptr<Wake> wake_;
  };
  Waker waker() const noexcept { return Waker(wake_); }
  // Forgets the events so far.
  void drain() const noexcept;
  // Sleeps until an event, from `now` at most until the deadline, and forgets the events. RIPC_OK, RIPC_TIMEOUT,
  // RIPC_INTERRUPTED (a signal handler ran in this thread).
  ripc_status wait(Deadline deadline, Nanoseconds now) const noexcept;
  // The same, but keeps the events where there are no doorbells. Those of a descriptor end when it has been read empty,
  // so a receiver that finds something saves a system call. One that finds nothing calls forget_kept().
  ripc_status sleep(Deadline deadline, Nanoseconds now) const noexcept;
  // False: sleep() has kept none. Otherwise the caller looks around once more: what came before has no event now.
  bool forget_kept() const noexcept;

 private:
  EventSet() = default;
  int take_events() const noexcept;

  UniqueFd epoll_;
  std::shared_ptr<Wake> wake_;
};

// The responder's loop. Handlers run in the thread that runs the loop; that may be a nested run (see run_until).
//
// What runs here may fail for want of memory, by std::bad_alloc. It is then tried again, a moment later. For a handler,
// that is when its descriptor is looked at the next time. A task goes behind those that wait, a timer waits until
// kRetryPause is over. So each must be able to begin anew; one that is not catches what it throws.
class EventLoop {
 public:
  using Handler = std::function<void(std::uint32_t events)>;  // EPOLLIN ...
  using Task = std::function<void()>;
  using TimerId = std::uint64_t;

  static Result<std::unique_ptr<EventLoop>> create();
  ~EventLoop();

  // Any thread. The handler stays until remove(); it may remove itself. RIPC_INVALID_ARGUMENT: there is one for this
  // descriptor already, which stays as it is. RIPC_NO_DESCRIPTORS, RIPC_NO_MEMORY, RIPC_SYSTEM.
  Status add(int fd, std::uint32_t events, Handler handler);
  Status modify(int fd, std::uint32_t events);
  void remove(int fd) noexcept;

  // A task that is ready to be posted: made in time by a caller that must not fail later.
  using Prepared = std::list<Task>;
  static Prepared prepare(Task task);

  // Any thread. Runs the task in the loop soon.
  void post(Task task) { post(prepare(std::move(task))); }
  void post(Prepared&& task) noexcept;
  // The same, but never in a nested run: for callbacks of the application.
  void post_top_level(Task task) { post_top_level(prepare(std::move(task))); }
  void post_top_level(Prepared&& task) noexcept;

  static constexpr Nanoseconds kRetryPause = 1'000'000;
  // Any thread. Runs the task once at `at` (monotonic).
  TimerId add_timer(Nanoseconds at, Task task);
  // A timer that stays, and runs whenever it was set to; at first it is not set. Setting it takes no memory.
  TimerId make_timer(Task task);
  // UINT64_MAX: not at all. Nothing happens if it was cancelled.
  void set_timer(TimerId id, Nanoseconds at) noexcept;
  // It is gone. If it is running in the loop, this does not wait for that.
  void cancel_timer(TimerId id) noexcept;

  bool in_loop_thread() const noexcept { return thread_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

  // Runs until stop(), in the calling thread, which becomes the loop thread.
  void run();
  void stop() noexcept;
  // After stop(), when run() has returned. Destroys what would have run, in the calling thread.
  void clear() noexcept;
  // In the loop thread: handles events until `done` or the deadline; true if done. Lets a callback wait for what only
  // the loop itself can bring.
  bool run_until(const std::function<bool()>& done, Deadline deadline);
  // In the loop thread. Grows with every look at the descriptors: an order of what happens there, without a clock.
  std::uint64_t turn() const noexcept { return turn_; }
  // Any thread. True while something that a descriptor brings was not looked at, or not acted on, yet.
  bool is_behind() const noexcept;
  // In the loop thread. How many signal handlers have ended a sleep of this loop.
  std::uint64_t signal_count() const noexcept { return signals_; }
  // Any thread, async-signal-safe. Makes run_until() look whether it is done.
  void wake() const noexcept;
  void wake_from_elsewhere() const noexcept;

 private:
  EventLoop() = default;
  void run_once(Deadline deadline, bool nested);
  void enqueue(Prepared& queue, Prepared& task) noexcept;
  bool run_tasks(bool nested);  // true if there were any
  void run_each(Prepared& tasks, Prepared& queue) noexcept;
  void run_timers();
  struct Timer {
    Task task;
    Nanoseconds at = UINT64_MAX;
    bool stays = false;
  };
  TimerId insert_timer(Nanoseconds at, Task task, bool stays);
  void set_timer_locked(TimerId id, Timer& timer, Nanoseconds at) noexcept;
  void set_alarm_locked() noexcept;

  UniqueFd epoll_;
  UniqueFd wake_;
  UniqueFd alarm_;  // a timerfd: so the loop needs no clock to sleep
  std::atomic<std::thread::id> thread_{};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> handling_{false};  // events that were taken
  std::mutex mutex_;
  std::unordered_map<int, std::shared_ptr<Handler>> handlers_;
  Prepared tasks_;
  Prepared top_level_tasks_;
  std::map<TimerId, std::shared_ptr<Timer>> timers_;
  std::set<std::pair<Nanoseconds, TimerId>> timer_order_;  // an entry for each of timers_
  TimerId next_timer_ = 1;
  Nanoseconds alarm_at_ = UINT64_MAX;  // what alarm_ is set to; never later than the first timer while the loop sleeps
  std::uint64_t turn_ = 0;
  std::uint64_t signals_ = 0;
};

}  // namespace ripc::internal
