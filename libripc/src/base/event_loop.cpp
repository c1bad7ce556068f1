// SPDX-License-Identifier: Apache-2.0
#include "base/event_loop.hpp"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>

namespace ripc::internal {

namespace {

// One call takes so many events; if it takes them all, there may be more.
constexpr int kEventBatch = 64;
// Beside the descriptor in an event's data.
constexpr std::uint64_t kDoorbell = std::uint64_t{1} << 32;

Status add_to_epoll(int epoll, int fd, std::uint32_t events, std::uint64_t flags = 0) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<std::uint32_t>(fd) | flags;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return {};
  if (errno == EEXIST)
    return Status(RIPC_INVALID_ARGUMENT, "The descriptor is waited for already: remove it first, or modify it.");
  return system_error(errno, "epoll_ctl", "raise `ulimit -n` or fs.epoll.max_user_watches");
}

// Where there is no memory now, there may be some later.
void rest() noexcept {
  const timespec pause{0, static_cast<long>(EventLoop::kRetryPause)};
  (void)nanosleep(&pause, nullptr);
}

// Sleeps until the epoll instance has events or the deadline is over. When a stopped process goes on, epoll_wait(2)
// itself also fails with EINTR, and nothing tells that from a signal handler. In that case ppoll(2) goes on.
ripc_status sleep_on(int epoll, Deadline deadline, Nanoseconds now) noexcept {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  const Nanoseconds left = deadline.remaining(now);
  const timespec timeout{static_cast<time_t>(left / kSecond), static_cast<long>(left % kSecond)};
  pollfd ready{epoll, POLLIN, 0};
  const int count = ppoll(&ready, 1, deadline.is_never() ? nullptr : &timeout, nullptr);
  if (count < 0 && errno == EINTR) return RIPC_INTERRUPTED;
  return count == 0 ? RIPC_TIMEOUT : RIPC_OK;
}

Status create_epoll_with_wake(UniqueFd& epoll, UniqueFd& wake, std::uint32_t wake_events) noexcept {
  epoll.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_error(errno, "epoll_create1", "raise `ulimit -n`");
  wake.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake) return system_error(errno, "eventfd", "raise `ulimit -n`");
  return add_to_epoll(epoll.get(), wake.get(), wake_events);
}

}  // namespace

// ---- EventSet ------------------------------------------------------------------------------------------------

Result<EventSet> EventSet::create() {
  EventSet set;
  set.wake_ = std::make_shared<Wake>();
  if (Status status = create_epoll_with_wake(set.epoll_, set.wake_->fd, EPOLLIN | EPOLLET); !status.ok()) return status;
  return set;
}

Status EventSet::add(int fd, Kind kind) noexcept {
  if (kind == Kind::doorbell) wake_->has_doorbells.store(true, std::memory_order_relaxed);
  return add_to_epoll(epoll_.get(), fd, EPOLLIN | EPOLLET, kind == Kind::doorbell ? kDoorbell : 0);
}

void EventSet::remove(int fd) noexcept { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void EventSet::drain() const noexcept {
  while (take_events() == kEventBatch) {
  }
}

ripc_status EventSet::wait(Deadline deadline, Nanoseconds now) const noexcept {
  const ripc_status status = sleep_on(epoll_.get(), deadline, now);
  if (status == RIPC_OK) drain();
  return status;
}

// A doorbell stays readable until it is emptied, and wakes its owner again.
ripc_status EventSet::sleep(Deadline deadline, Nanoseconds now) const noexcept {
  return wake_->has_doorbells.load(std::memory_order_relaxed) ? wait(deadline, now)
                                                              : sleep_on(epoll_.get(), deadline, now);
}

bool EventSet::forget_kept() const noexcept {
  if (wake_->has_doorbells.load(std::memory_order_relaxed)) return false;
  drain();
  return true;
}

int EventSet::take_events() const noexcept {
  std::array<epoll_event, kEventBatch> events;
  const int count = std::max(epoll_wait(epoll_.get(), events.data(), kEventBatch, 0), 0);
  // Before the waiting thread looks around: what was done before a ring that makes no event is seen then.
  (void)wake_->is_rung.exchange(false, std::memory_order_acq_rel);
  for (int index = 0; index < count; ++index) {
    const std::uint64_t data = events[static_cast<std::size_t>(index)].data.u64;
    if ((data & kDoorbell) == 0) continue;  // reporting its event is enough
    const int fd = static_cast<int>(static_cast<std::uint32_t>(data));
    // Emptied whole: one that stays full would take no more rings, and make no more edges.
    std::array<mmsghdr, 8> rings{};
    while (recvmmsg(fd, rings.data(), rings.size(), MSG_DONTWAIT, nullptr) == static_cast<int>(rings.size())) {
    }
  }
  return count;
}

// ---- EventLoop -----------------------------------------------------------------------------------------------

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  std::unique_ptr<EventLoop> loop(new EventLoop);
  Status status = create_epoll_with_wake(loop->epoll_, loop->wake_, EPOLLIN);
  if (!status.ok()) return status;
  loop->alarm_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!loop->alarm_) return system_error(errno, "timerfd_create", "raise `ulimit -n`");
  // Setting it anew makes it unreadable: no one has to read it.
  status = add_to_epoll(loop->epoll_.get(), loop->alarm_.get(), EPOLLIN | EPOLLET);
  if (!status.ok()) return status;
  return loop;
}

EventLoop::~EventLoop() = default;

Status EventLoop::add(int fd, std::uint32_t events, Handler handler) {
  auto made = std::make_shared<Handler>(std::move(handler));
  // The loop looks for the handler of an event under this lock: it finds the new one, however soon the event comes.
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = handlers_.try_emplace(fd);
  Status status = add_to_epoll(epoll_.get(), fd, events);
  if (status.ok()) {
    place->second = std::move(made);
  } else if (is_new) {
    handlers_.erase(place);
  }
  return status;
}

Status EventLoop::modify(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return {};
  return system_error(errno, "epoll_ctl");
}

void EventLoop::remove(int fd) noexcept {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  const std::lock_guard lock(mutex_);
  handlers_.erase(fd);
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
  // In the loop it is time enough before it sleeps.
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
  decltype(handlers_) handlers;
  decltype(timers_) timers;
  Prepared tasks;
  {
    const std::lock_guard lock(mutex_);
    handlers.swap(handlers_);
    timers.swap(timers_);
    timer_order_.clear();
    tasks.splice(tasks.end(), tasks_);
    tasks.splice(tasks.end(), top_level_tasks_);
  }
}

bool EventLoop::run_until(const std::function<bool()>& done, Deadline deadline) {
  while (!done()) {
    if (deadline.expired() || stopping_.load(std::memory_order_acquire)) return false;
    run_once(deadline, true);
  }
  return true;
}

bool EventLoop::is_behind() const noexcept {
  pollfd descriptor{epoll_.get(), POLLIN, 0};
  // In this order: what is not there any more was taken by a loop that had said before that it is busy.
  return poll(&descriptor, 1, 0) != 0 || handling_.load(std::memory_order_acquire);
}

void EventLoop::run_once(Deadline deadline, bool nested) {
  const bool tasks_ran = run_tasks(nested);
  // What ran may have made true what run_until() waits for: then no one sleeps. Nor with work that it left behind.
  bool pending = nested && tasks_ran;
  {
    const std::lock_guard lock(mutex_);
    pending = pending || !tasks_.empty() || (!nested && !top_level_tasks_.empty());
    set_alarm_locked();
  }
  // Only a wait in a nested run ends with a signal.
  if (nested && !pending) {
    if (sleep_on(epoll_.get(), deadline, monotonic_now()) == RIPC_INTERRUPTED) ++signals_;
    pending = true;
  }
  const int timeout = pending ? 0 : deadline.remaining_milliseconds();
  std::array<epoll_event, 64> events;
  handling_.store(false, std::memory_order_release);
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
  handling_.store(true, std::memory_order_release);
  ++turn_;
  bool timers_are_due = false;
  for (int index = 0; index < count; ++index) {
    const epoll_event& event = events[static_cast<std::size_t>(index)];
    if (event.data.fd == wake_.get()) {
      clear_event(wake_.get());
      continue;
    }
    if (event.data.fd == alarm_.get()) {
      timers_are_due = true;
      continue;
    }
    std::shared_ptr<Handler> handler;
    {
      const std::lock_guard lock(mutex_);
      const auto found = handlers_.find(event.data.fd);
      if (found != handlers_.end()) handler = found->second;
    }
    if (!handler) continue;
    try {
      (*handler)(event.events);
    } catch (const std::bad_alloc&) {
      rest();
    }
  }
  // At last: a process that was stopped first handles what has come, then what has not come in time.
  if (timers_are_due) run_timers();
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
      rest();
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
      set_timer_locked(id, *timer, monotonic_now() + kRetryPause);
    } else if (!timer->stays) {
      timer_order_.erase({timer->at, id});
      timers_.erase(found);
    }
  }
}

// An alarm for a timer that was cancelled stays: it costs a look when it goes off, and nothing if it is set before.
void EventLoop::set_alarm_locked() noexcept {
  if (timer_order_.empty() || timer_order_.begin()->first >= alarm_at_) return;
  alarm_at_ = timer_order_.begin()->first;
  constexpr Nanoseconds kSecond = 1'000'000'000;
  // 0 would mean: none.
  const Nanoseconds at = std::clamp<Nanoseconds>(alarm_at_, 1, std::numeric_limits<std::int64_t>::max());
  itimerspec alarm{};
  alarm.it_value = {static_cast<time_t>(at / kSecond), static_cast<long>(at % kSecond)};
  (void)timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &alarm, nullptr);
}

void EventLoop::wake() const noexcept { signal_event(wake_.get()); }

// The loop looks at all there is before it sleeps.
void EventLoop::wake_from_elsewhere() const noexcept {
  if (!in_loop_thread()) wake();
}

}  // namespace ripc::internal
