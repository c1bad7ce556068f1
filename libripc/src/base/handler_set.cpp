// SPDX-License-Identifier: Apache-2.0
#include "base/handler_set.hpp"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <new>
#include <utility>

#include "base/epoll.hpp"

namespace ripc::internal {

void wait_for_memory() noexcept { pause_for(kMemoryPause); }

// ---- HandlerSet ----------------------------------------------------------------------------------------------

Status HandlerSet::open() noexcept { return create_epoll(epoll_); }

Status HandlerSet::add(int fd, std::uint32_t events, Handler handler) {
  auto made = std::make_shared<Handler>(std::move(handler));
  // handle() looks for an event's handler under this lock, so it finds the new handler however soon the event comes.
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

Status HandlerSet::modify(int fd, std::uint32_t events) const noexcept {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return {};
  return system_error(errno, "epoll_ctl");
}

void HandlerSet::remove(int fd) noexcept {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  const std::lock_guard lock(mutex_);
  handlers_.erase(fd);
}

std::size_t HandlerSet::size() const noexcept {
  const std::lock_guard lock(mutex_);
  return handlers_.size();
}

void HandlerSet::clear() noexcept {
  decltype(handlers_) handlers;
  const std::lock_guard lock(mutex_);
  handlers.swap(handlers_);
}

bool HandlerSet::handle(int timeout, int most) {
  std::array<epoll_event, kMostAtOnce> events;
  settled();
  const int count = epoll_wait(epoll_.get(), events.data(), most, timeout);
  handling_.store(true, std::memory_order_release);
  for (int index = 0; index < count; ++index) {
    const epoll_event& event = events[static_cast<std::size_t>(index)];
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
      wait_for_memory();
    }
  }
  return count > 0;
}

bool HandlerSet::is_behind() const noexcept {
  pollfd descriptor{epoll_.get(), POLLIN, 0};
  // The order matters: a thread says that it is busy before it takes what a descriptor has brought.
  return poll(&descriptor, 1, 0) != 0 || handling_.load(std::memory_order_acquire);
}

// ---- SharedSet -----------------------------------------------------------------------------------------------

Status SharedSet::open(HandlerSet& loop) {
  loop_ = &loop;
  Status status = own_.open();
  if (status.ok()) status = create_wake(wake_);
  if (status.ok()) status = own_.add(wake_.get(), EPOLLIN, [this](std::uint32_t) { clear_event(wake_.get()); });
  if (!status.ok()) return status;
  return loop.add(own_.fd(), EPOLLIN, [this](std::uint32_t) { handle_in_loop(); });
}

void SharedSet::wake() noexcept {
  const std::lock_guard lock(mutex_);
  if (user_ != std::thread::id() && user_ != std::this_thread::get_id()) signal_event(wake_.get());
}

bool SharedSet::borrow() noexcept {
  const std::lock_guard lock(mutex_);
  // One descriptor is that of wake().
  if (own_.size() == 1 || user_ != std::thread::id() || !loop_->modify(own_.fd(), 0).ok()) return false;
  user_ = std::this_thread::get_id();
  return true;
}

void SharedSet::give_back() noexcept {
  const std::lock_guard lock(mutex_);
  user_ = {};
  (void)loop_->modify(own_.fd(), EPOLLIN);
}

bool SharedSet::handle(int most) {
  const bool found = own_.handle(0, most);
  own_.settled();
  return found;
}

void SharedSet::handle_in_loop() {
  const std::thread::id before = [this] {
    const std::lock_guard lock(mutex_);
    return std::exchange(user_, user_ == std::thread::id() ? std::this_thread::get_id() : user_);
  }();
  // The descriptors were borrowed after this event was taken. In a nested run, the loop itself has them.
  if (before != std::thread::id() && before != std::this_thread::get_id()) return;
  (void)handle(HandlerSet::kMostAtOnce);
  const std::lock_guard lock(mutex_);
  user_ = before;
}

}  // namespace ripc::internal
