// SPDX-License-Identifier: Apache-2.0
#include "remote/link/link_port.hpp"

#include <algorithm>
#include <utility>

#include "base/loop_wait.hpp"

namespace ripc::internal::remote {

namespace {

// How long a service that ends waits until its senders know: a few round trips.
constexpr Nanoseconds kClosePatience = 250'000'000;

}  // namespace

LinkPort::LinkPort(const spi::PortOptions& options, std::size_t packet_limit, EventSet& events, EventLoop& loop,
                   std::function<void(LinkPort&)> closed)
    : Port(options, packet_limit, counters_), events_(events), loop_(loop), closed_(std::move(closed)) {}

void LinkPort::leave() noexcept {
  if (!closed_) return;
  LinkPort::close();
  std::exchange(closed_, nullptr)(*this);
  for (const auto& source : sources_) source->session()->bulk->forget(events_);
  for (const auto& weak : former_sessions_) {
    if (const SessionPointer session = weak.lock()) session->bulk->forget(events_);
  }
}

void LinkPort::make_place_locked() {
  const std::size_t count = sources_.size() + 1;
  if (sources_.capacity() < count) sources_.reserve(2 * count);
}

void LinkPort::insert_locked(std::shared_ptr<LinkSource> source) noexcept {
  sources_.push_back(std::move(source));
  counters_.sources.store(sources_.size(), std::memory_order_relaxed);
  version_.fetch_add(1, std::memory_order_release);
  events_.wake();
}

void LinkPort::make_place() {
  const std::lock_guard lock(mutex_);
  make_place_locked();
}

void LinkPort::insert(std::shared_ptr<LinkSource> source) noexcept {
  const std::lock_guard lock(mutex_);
  insert_locked(std::move(source));
}

void LinkPort::erase(LinkSource& source) noexcept {
  remember_session_of(source);
  const std::lock_guard lock(mutex_);
  erase_locked(source);
}

void LinkPort::remember_session_of(LinkSource& source) noexcept {
  std::erase_if(former_sessions_, [&](const auto& weak) { return weak.expired() || weak.lock() == source.session(); });
  former_sessions_.splice(former_sessions_.end(), source.take_place());
}

void LinkPort::erase_locked(const LinkSource& source) noexcept {
  std::erase_if(sources_, [&](const auto& other) { return other.get() == &source; });
  counters_.sources.store(sources_.size(), std::memory_order_relaxed);
  version_.fetch_add(1, std::memory_order_release);
}

void LinkPort::close() noexcept {
  if (closing_.exchange(true, std::memory_order_acq_rel)) return;
  const auto all_done = [this] {
    return std::none_of(sources_.begin(), sources_.end(), [](const auto& source) {
      return !source->dead() && !source->session()->slow.load(std::memory_order_relaxed);
    });
  };
  std::unique_lock lock(mutex_);
  for (const auto& source : sources_) {
    if (source->dead()) continue;
    source->session()->stream.tell(wire::session_control::LinkClosed{.link = source->link(), .status = RIPC_CLOSED});
  }
  (void)wait_in(loop_, lock, changed_, Deadline::after(kClosePatience), all_done);
  for (const auto& source : sources_) {
    if (!source->dead()) source->session()->slow.store(true, std::memory_order_relaxed);
  }
}

void LinkPort::wake() noexcept {
  {
    const std::lock_guard lock(mutex_);
    version_.fetch_add(1, std::memory_order_release);
  }
  changed_.notify_all();
  events_.wake();
}

}  // namespace ripc::internal::remote
