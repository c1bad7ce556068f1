// SPDX-License-Identifier: Apache-2.0
#include "core/watch.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <utility>

#include "base/backoff.hpp"
#include "base/futex.hpp"
#include "base/group_id.hpp"
#include "base/loop_wait.hpp"
#include "base/thread.hpp"
#include "base/timed_wait.hpp"
#include "core/context.hpp"

namespace ripc::internal::core {

namespace {

constexpr Nanoseconds kNever = UINT64_MAX;
// The pause between two checks of a missing service, in addition to those that a change triggers.
constexpr Nanoseconds kFirstLookPause = 50'000'000;
constexpr Nanoseconds kLongestLookPause = 5'000'000'000;
// The time for one question to a network: the other watches wait meanwhile.
constexpr Nanoseconds kAskTime = 100'000'000;
// The longest time for one attempt to connect. It is longer than a packet takes to the other end of the world and back.
constexpr Nanoseconds kLongestAttempt = 400'000'000;
// The pause after a check that failed for lack of memory.
constexpr Nanoseconds kMemoryPause = 10'000'000;

}  // namespace

class WatchTable::Watch {
 public:
  Watch(ripc_service_id of, Callback to_call, Where runs) : id(of), callback(std::move(to_call)), where(runs) {}

  const ripc_service_id id;
  const Callback callback;
  const Where where;

  // Guarded by the table's lock.
  Nanoseconds look_at = 0;                // when the thread checks it next
  std::shared_ptr<spi::Channel> channel;  // to the service that is there
  ripc_status lost = RIPC_OK;             // why the channel was lost since the last check; RIPC_OK: it was not
  Status failure = RIPC_NO_SERVICE;       // why the last check found no service
  bool was_looked_at = false;
  bool is_running = false;
  bool is_removed = false;

  // Used by the thread only.
  std::optional<Resolution> seen;  // the service that is there, as it was reported
  ripc_status why = RIPC_OK;       // why it may have ended; not reported yet
  Backoff pause{kFirstLookPause, kLongestLookPause};
  Backoff patience{kAskTime, kLongestAttempt};
  Deadline give_up = Deadline::never();  // of the search that is in progress
};

// ---- Watches -------------------------------------------------------------------------------------------------

Status WatchTable::start_locked() {
  if (thread_.joinable()) return {};
  return start_thread(thread_, "ripc-watch", "Starting the thread that watches services", [this] { run(); });
}

Result<WatchTable::WatchPointer> WatchTable::add(ripc_service_id id, Callback callback) {
  return add(id, std::move(callback), Where::responder);
}

Result<WatchTable::WatchPointer> WatchTable::seek(ripc_service_id id, Callback callback) {
  return add(id, std::move(callback), Where::table_thread);
}

Result<WatchTable::WatchPointer> WatchTable::add(ripc_service_id id, Callback callback, Where where) {
  auto watch = std::make_shared<Watch>(id, std::move(callback), where);
  // Resolvers call changed() with locks of their own. For a resolver that cannot report changes, the regular checks
  // remain.
  std::call_once(observes_, [this] {
    (void)context_.resolver().observe(
        context_.loop(), [this](const spi::Change& change) { context_.resolver_changed(change); },
        spi::Observe::everything);
  });
  const std::lock_guard lock(mutex_);
  if (Status started = start_locked(); !started.ok()) return started;
  watches_.push_back(watch);
  changed_.notify_all();
  return watch;
}

void WatchTable::remove(const WatchPointer& watch) noexcept {
  std::shared_ptr<spi::Channel> destroyed_outside_the_lock;
  std::unique_lock lock(mutex_);
  watch->is_removed = true;
  std::erase(watches_, watch);
  destroyed_outside_the_lock = std::move(watch->channel);
  // Inside the callback itself, waiting for it would never end.
  if (!context_.loop().in_loop_thread()) changed_.wait(lock, [&] { return !watch->is_running; });
  lock.unlock();
}

Result<Resolution> WatchTable::wait(ripc_service_id id, Deadline deadline) {
  // The table's thread may still use this after the function returns.
  struct Found {
    std::atomic<std::uint32_t> changes{0};
    std::mutex mutex;
    std::optional<Resolution> service;
  };
  const auto found = std::make_shared<Found>();
  const auto tell = [found, &loop = context_.loop()](ripc_status status, const Resolution& resolution) {
    {
      const std::lock_guard lock(found->mutex);
      if (status == RIPC_OK) found->service = resolution;
    }
    found->changes.fetch_add(1, std::memory_order_release);
    futex_wake(found->changes);
    loop.wake();
  };
  Result<WatchPointer> watch = seek(id, tell);
  if (!watch.ok()) return watch.status();
  // Copying the result may take memory that is not there.
  struct Removal {
    WatchTable& table;
    const WatchPointer& watch;
    ~Removal() { table.remove(watch); }
  } const removal{*this, *watch};
  Result<Resolution> result = RIPC_NO_SERVICE;
  for (;;) {
    const std::uint32_t seen = found->changes.load(std::memory_order_acquire);
    bool is_last = false;
    {
      const std::lock_guard lock(mutex_);
      result = (*watch)->failure;
      is_last = (*watch)->was_looked_at && deadline.expired();
    }
    // Read after the failure, because a check reports what it has found before it ends.
    {
      const std::lock_guard lock(found->mutex);
      if (found->service) result = *found->service;
    }
    if (result.ok() || is_last) return result;
    // The end of each check is a change, too.
    if (wait_for_change(context_.loop(), found->changes, seen, deadline.expired() ? Deadline::never() : deadline) ==
        RIPC_INTERRUPTED)
      return RIPC_INTERRUPTED;
  }
}

void WatchTable::changed(ripc_service_id id) noexcept {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const WatchPointer& watch : watches_) {
    if (id != 0 && watch->id != id) continue;
    watch->look_at = 0;
    any = true;
  }
  if (any) changed_.notify_all();
}

void WatchTable::channel_lost(const spi::Channel& channel, ripc_status why) noexcept {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const WatchPointer& watch : watches_) {
    if (watch->channel.get() != &channel) continue;
    watch->lost = why;
    watch->look_at = 0;
    any = true;
  }
  if (any) changed_.notify_all();
}

// ---- The thread ----------------------------------------------------------------------------------------------

void WatchTable::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  std::list<WatchPointer> ended;
  const std::lock_guard lock(mutex_);
  ended.swap(watches_);
  for (const WatchPointer& watch : ended) {
    watch->is_removed = true;
    watch->channel.reset();
  }
}

void WatchTable::run() noexcept {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto next = std::ranges::min_element(
        watches_, [](const auto& one, const auto& other) { return one->look_at < other->look_at; });
    const Nanoseconds due = next == watches_.end() ? kNever : (*next)->look_at;
    if (const Nanoseconds now = monotonic_now(); due > now) {
      wait_at_most(changed_, lock, due - now);
      continue;
    }
    const WatchPointer watch = *next;
    // Changes from now on trigger another check.
    watch->look_at = kNever;
    lock.unlock();
    Nanoseconds again = kNever;
    bool is_over = true;
    try {
      is_over = check(watch);
      if (is_over) watch->give_up = Deadline::never();
      if (!is_over) {
        again = 0;
      } else if (!watch->seen) {
        again = watch->pause.next();
      } else {
        watch->pause.reset();
        watch->patience.reset();
      }
    } catch (const std::bad_alloc&) {
      again = kMemoryPause;
    }
    lock.lock();
    watch->was_looked_at |= is_over;
    if (is_over && watch->where == Where::table_thread && !watch->is_removed && !watch->seen) {
      const ripc_status why = watch->failure.code();
      lock.unlock();
      try {
        watch->callback(why, {});
      } catch (const std::bad_alloc&) {
        again = kMemoryPause;
      }
      lock.lock();
    }
    if (again != kNever) watch->look_at = std::min(watch->look_at, monotonic_now() + again);
  }
}

// False: it has to go on after those of others. May throw std::bad_alloc: what was reported by then is noted, and the
// next check reports the rest.
bool WatchTable::check(const WatchPointer& watch) {
  if (is_group(watch->id)) {
    look_at_group(watch);
    return true;
  }
  std::shared_ptr<spi::Channel> channel;
  {
    const std::lock_guard lock(mutex_);
    if (watch->lost != RIPC_OK) watch->why = std::exchange(watch->lost, RIPC_OK);
    channel = watch->channel;
  }
  Result<spi::ServiceRecord> record = context_.resolver().resolve(watch->id, Deadline::after(kAskTime));
  const bool is_displaced = watch->seen && record.ok() && spi::displaces(*record, watch->seen->record);
  if (watch->seen && watch->why == RIPC_OK && !is_displaced) return true;
  if (is_displaced) watch->why = RIPC_FENCED;
  // A stopped former holder has not closed its channel, which would block a new one.
  if (channel && is_displaced) context_.paths().drop(*channel);

  Result<Resolution> path = record.ok() ? find_path(*watch) : record.status();
  if (path.status() == RIPC_PENDING) return false;
  const bool is_unknown = record.status() == RIPC_NO_SERVICE || record.status() == RIPC_TIMEOUT;
  if (is_unknown && watch->where == Where::table_thread) {
    Result<Resolution> way_back = context_.paths().find_way_back(watch->id, Deadline::after(kAskTime));
    if (way_back.status() != RIPC_NO_SERVICE) path = std::move(way_back);
  }
  std::shared_ptr<spi::Channel> found = path.ok() ? context_.paths().known_channel(watch->id) : nullptr;
  {
    const std::lock_guard lock(mutex_);
    channel = std::exchange(watch->channel, watch->is_removed ? nullptr : found);
    // Checks whether the channel was lost before this watch had it. From here on, channel_lost() reports it.
    if (path.ok() && (!found || !found->alive())) path = Result<Resolution>(RIPC_PEER_DEAD);
    if (!path.ok()) {
      watch->channel.reset();
      watch->failure = path.status();
    }
  }
  // A resolver's memory of a holder that is gone would hide the next one.
  if (record.ok() && !path.ok()) context_.resolver().invalidate(*record);
  // The static resolver does not know registrations.
  if (path.ok() && found->incarnation() != 0) path->record.incarnation = found->incarnation();

  const bool is_same = path.ok() && watch->seen && path->record.incarnation == watch->seen->record.incarnation;
  if (watch->seen && !is_same) {
    tell(watch, path.ok() ? RIPC_FENCED : watch->why, *watch->seen);
    watch->seen.reset();
  }
  if (path.ok() && !watch->seen) {
    tell(watch, RIPC_OK, *path);
    watch->seen = std::move(*path);
  }
  watch->why = RIPC_OK;
  return true;
}

// Connects bit by bit, because a process that does not answer must hold up neither other watches nor the end of the
// context. RIPC_PENDING: it is their turn.
Result<Resolution> WatchTable::find_path(Watch& watch) {
  if (watch.give_up.is_never()) watch.give_up = Deadline::after(context_.resolve_timeout());
  for (;;) {
    const Deadline attempt = Deadline::after(watch.patience.next());
    Result<Resolution> path = context_.paths().find_path(watch.id, attempt);
    if (path.status() != RIPC_TIMEOUT || !attempt.expired() || watch.give_up.expired()) return path;
    const std::lock_guard lock(mutex_);
    const Nanoseconds now = monotonic_now();
    const auto is_due = [now](const WatchPointer& other) { return other->look_at <= now; };
    if (stopping_ || watch.is_removed || std::ranges::any_of(watches_, is_due)) return RIPC_PENDING;
  }
}

void WatchTable::look_at_group(const WatchPointer& watch) {
  context_.groups().outdate(watch->id);
  if (context_.groups().members(watch->id)->members.empty()) return;
  tell(watch, RIPC_OK, {});
  watch->seen.emplace();
}

void WatchTable::tell(const WatchPointer& watch, ripc_status status, const Resolution& resolution) {
  if (watch->where == Where::table_thread) {
    watch->callback(status, resolution);
  } else {
    context_.loop().post_top_level([this, watch, status, resolution] { run_callback(watch, status, resolution); });
  }
}

void WatchTable::run_callback(const WatchPointer& watch, ripc_status status, const Resolution& resolution) {
  {
    const std::lock_guard lock(mutex_);
    // The last attempt may have ended for lack of memory, and remove() then waits for this one.
    watch->is_running = !watch->is_removed;
    changed_.notify_all();
    if (watch->is_removed) return;
  }
  watch->callback(status, resolution);
  const std::lock_guard lock(mutex_);
  watch->is_running = false;
  changed_.notify_all();
}

}  // namespace ripc::internal::core
