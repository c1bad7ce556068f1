// SPDX-License-Identifier: Apache-2.0
#include "base/event_loop.hpp"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/epoll.hpp"
#include "base/event_signal.hpp"

namespace ripc::internal {

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  std::unique_ptr<EventLoop> made(new EventLoop);
  EventLoop& loop = *made;
  Status status = loop.own_.open();
  if (status.ok()) status = loop.shared_.open(loop.own_);
  if (status.ok()) status = create_wake(loop.wake_);
  if (status.ok())
    status = loop.add(loop.wake_.get(), EPOLLIN, [&loop](std::uint32_t) { clear_event(loop.wake_.get()); });
  if (!status.ok()) return status;
  loop.alarm_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!loop.alarm_) return system_error(errno, "timerfd_create", "raise `ulimit -n`");
  // Setting the alarm again makes it unreadable, so nobody has to read it.
  status = loop.add(loop.alarm_.get(), EPOLLIN | EPOLLET, [&loop](std::uint32_t) { loop.timers_are_due_ = true; });
  if (!status.ok()) return status;
  return made;
}

EventLoop::Prepared EventLoop::prepare(Task task) {
  Prepared prepared;
  prepared.push_back(std::move(task));
  return prepared;
}

void EventLoop::post(Prepared&& task) noexcept { enqueue(tasks_, task); }

void EventLoop::post_top_level(Prepared&& task) noexcept { enqueue(top_level_tasks_, task); }

void EventLoop::enqueue(Prepared& queue, Prepared& task) noexcept {
  {
    const std::lock_guard lock(mutex_);
    queue.splice(queue.end(), task);
  }
  wake_from_elsewhere();
}

EventLoop::TimerId EventLoop::add_timer(Nanoseconds at, Task task) { return insert_timer(at, std::move(task), false); }

EventLoop::TimerId EventLoop::make_timer(Task task) { return insert_timer(UINT64_MAX, std::move(task), true); }

EventLoop::TimerId EventLoop::insert_timer(Nanoseconds at, Task task, bool stays) {
  auto timer = std::make_shared<Timer>(Timer{std::move(task), at, stays});
  const std::lock_guard lock(mutex_);
  const TimerId id = next_timer_;
  const auto place = timer_order_.emplace(at, id).first;
  try {
    timers_.emplace(id, std::move(timer));
  } catch (...) {
    timer_order_.erase(place);
    throw;
  }
  ++next_timer_;
  // In the loop's thread it is early enough to do this before the loop sleeps.
  if (!in_loop_thread()) set_alarm_locked();
  return id;
}

void EventLoop::set_timer(TimerId id, Nanoseconds at) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = timers_.find(id);
  if (found == timers_.end()) return;
  set_timer_locked(id, *found->second, at);
  if (!in_loop_thread()) set_alarm_locked();
}

void EventLoop::set_timer_locked(TimerId id, Timer& timer, Nanoseconds at) noexcept {
  auto place = timer_order_.extract({timer.at, id});
  place.value().first = timer.at = at;
  timer_order_.insert(std::move(place));
}

void EventLoop::cancel_timer(TimerId id) noexcept {
  std::shared_ptr<Timer> destroyed_outside_the_lock;
  const std::lock_guard lock(mutex_);
  const auto found = timers_.find(id);
  if (found == timers_.end()) return;
  timer_order_.erase({found->second->at, id});
  destroyed_outside_the_lock = std::move(found->second);
  timers_.erase(found);
}

void EventLoop::run() {
  thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  while (!stopping_.load(std::memory_order_acquire)) run_once(Deadline::never(), false);
}

void EventLoop::stop() noexcept {
  stopping_.store(true, std::memory_order_release);
  wake();
}

void EventLoop::clear() noexcept {
  decltype(timers_) timers;
  Prepared tasks;
  {
    const std::lock_guard lock(mutex_);
    timers.swap(timers_);
    timer_order_.clear();
    tasks.splice(tasks.end(), tasks_);
    tasks.splice(tasks.end(), top_level_tasks_);
  }
  shared_.descriptors().clear();
  own_.clear();
}

bool EventLoop::run_until(const std::function<bool()>& done, Deadline deadline) {
  while (!done()) {
    if (deadline.expired() || stopping_.load(std::memory_order_acquire)) return false;
    run_once(deadline, true);
  }
  return true;
}

void EventLoop::run_once(Deadline deadline, bool nested) {
  const bool tasks_ran = run_tasks(nested);
  // A task may have fulfilled the condition of run_until(): then the loop must not sleep. Nor may it sleep while
  // there is work left.
  bool pending = nested && tasks_ran;
  {
    const std::lock_guard lock(mutex_);
    pending = pending || !tasks_.empty() || (!nested && !top_level_tasks_.empty());
    set_alarm_locked();
  }
  // Only a wait in a nested run ends with a signal.
  if (nested && !pending) {
    if (sleep_on(own_.fd(), deadline, monotonic_now()) == RIPC_INTERRUPTED) ++signals_;
    pending = true;
  }
  ++turn_;
  (void)own_.handle(pending ? 0 : deadline.remaining_milliseconds());
  // Timers come last: a process that was stopped first handles what has come, and then what is overdue.
  if (std::exchange(timers_are_due_, false)) run_timers();
}

bool EventLoop::run_tasks(bool nested) {
  // Only what is queued now: tasks that post tasks must not starve the descriptors.
  Prepared tasks;
  Prepared top_level;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
    if (!nested) top_level.swap(top_level_tasks_);
  }
  const bool any = !tasks.empty() || !top_level.empty();
  run_each(tasks, tasks_);
  run_each(top_level, top_level_tasks_);
  return any;
}

void EventLoop::run_each(Prepared& tasks, Prepared& queue) noexcept {
  while (!tasks.empty()) {
    Prepared task;
    task.splice(task.begin(), tasks, tasks.begin());
    try {
      task.front()();
    } catch (const std::bad_alloc&) {
      {
        const std::lock_guard lock(mutex_);
        queue.splice(queue.end(), task);
      }
      wait_for_memory();
    }
  }
}

void EventLoop::run_timers() {
  const Nanoseconds now = monotonic_now();
  for (;;) {
    TimerId id = 0;
    std::shared_ptr<Timer> timer;
    {
      const std::lock_guard lock(mutex_);
      alarm_at_ = UINT64_MAX;
      if (timer_order_.empty() || timer_order_.begin()->first > now) return;
      id = timer_order_.begin()->second;
      timer = timers_.find(id)->second;
      set_timer_locked(id, *timer, UINT64_MAX);
    }
    bool ran = true;
    try {
      timer->task();
    } catch (const std::bad_alloc&) {
      ran = false;
    }
    const std::lock_guard lock(mutex_);
    const auto found = timers_.find(id);
    if (found == timers_.end()) continue;
    if (!ran) {
      set_timer_locked(id, *timer, monotonic_now() + kMemoryPause);
    } else if (!timer->stays) {
      timer_order_.erase({timer->at, id});
      timers_.erase(found);
    }
  }
}

// The alarm of a cancelled timer stays: it costs one look when it goes off, and nothing if it is set again before that.
void EventLoop::set_alarm_locked() noexcept {
  if (timer_order_.empty() || timer_order_.begin()->first >= alarm_at_) return;
  alarm_at_ = timer_order_.begin()->first;
  // 0 would disarm the alarm.
  const Nanoseconds at = std::clamp<Nanoseconds>(alarm_at_, 1, std::numeric_limits<std::int64_t>::max());
  itimerspec alarm{};
  alarm.it_value = to_timespec(at);
  (void)timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &alarm, nullptr);
}

void EventLoop::wake() const noexcept { signal_event(wake_.get()); }

// The loop's own thread looks at everything before it sleeps.
void EventLoop::wake_from_elsewhere() const noexcept {
  if (!in_loop_thread()) wake();
}

}  // namespace ripc::internal
