// SPDX-License-Identifier: Apache-2.0
// The loop of the responder thread.
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
#include <utility>

#include "base/clock.hpp"
#include "base/event_set.hpp"
#include "base/handler_set.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace ripc::internal {

// The responder's loop. Handlers run in the thread that runs the loop; that may be a nested run (see run_until).
//
// Callbacks may fail with std::bad_alloc for lack of memory. The loop then tries them again a moment later. A handler
// runs again when the loop next looks at its descriptor. A task goes to the end of the queue, and a timer runs again
// after kMemoryPause. So each must be able to start over; one that cannot must catch its own exceptions.
class EventLoop {
 public:
  using Handler = HandlerSet::Handler;
  using Task = std::function<void()>;
  using TimerId = std::uint64_t;

  static Result<std::unique_ptr<EventLoop>> create();

  // As for HandlerSet.
  Status add(int fd, std::uint32_t events, Handler handler) { return own_.add(fd, events, std::move(handler)); }
  Status modify(int fd, std::uint32_t events) { return own_.modify(fd, events); }
  void remove(int fd) noexcept { own_.remove(fd); }
  // The descriptors that only the loop looks at, and those that bring what threads wait for.
  HandlerSet& descriptors() noexcept { return own_; }
  SharedSet& shared() noexcept { return shared_; }

  // A task that is ready to be posted. A caller that must not fail later prepares it in advance.
  using Prepared = std::list<Task>;
  static Prepared prepare(Task task);

  // Any thread. Runs the task in the loop soon.
  void post(Task task) { post(prepare(std::move(task))); }
  void post(Prepared&& task) noexcept;
  // The same, but never in a nested run: for callbacks of the application.
  void post_top_level(Task task) { post_top_level(prepare(std::move(task))); }
  void post_top_level(Prepared&& task) noexcept;

  // Any thread. Runs the task once at `at` (monotonic).
  TimerId add_timer(Nanoseconds at, Task task);
  // Makes a permanent timer, which runs each time that it was set to. It starts out unset. Setting it takes no memory.
  TimerId make_timer(Task task);
  // UINT64_MAX: never. Does nothing if the timer was cancelled.
  void set_timer(TimerId id, Nanoseconds at) noexcept;
  // Removes the timer. If its task is running in the loop, this does not wait for the task.
  void cancel_timer(TimerId id) noexcept;

  bool in_loop_thread() const noexcept { return thread_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

  // Runs until stop(), in the calling thread, which becomes the loop thread.
  void run();
  void stop() noexcept;
  // Call it after stop(), when run() has returned. Destroys, in the calling thread, what would still have run.
  void clear() noexcept;
  // In the loop thread: handles events until `done` or the deadline; true if done. So a callback can wait for something
  // that only the loop itself can bring.
  bool run_until(const std::function<bool()>& done, Deadline deadline);
  // In the loop thread. Grows each time the loop looks at the descriptors, so it orders events without a clock.
  std::uint64_t turn() const noexcept { return turn_; }
  // Any thread. True while a descriptor has brought something that was not yet looked at or acted upon.
  bool is_behind() const noexcept { return own_.is_behind() || shared_.descriptors().is_behind(); }
  // In the loop thread. How many signal handlers have ended a sleep of this loop.
  std::uint64_t signal_count() const noexcept { return signals_; }
  // Any thread, async-signal-safe. Makes run_until() check whether it is done.
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

  HandlerSet own_;
  SharedSet shared_;
  UniqueFd wake_;
  UniqueFd alarm_;  // a timerfd: so the loop needs no clock to sleep
  std::atomic<std::thread::id> thread_{};
  std::atomic<bool> stopping_{false};
  bool timers_are_due_ = false;
  std::mutex mutex_;  // for the following, except the counts
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
