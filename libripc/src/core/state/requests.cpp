// SPDX-License-Identifier: Apache-2.0
#include "core/state/requests.hpp"

#include <bitset>
#include <thread>

#include "base/random.hpp"

namespace ripc::internal::core {

std::uint64_t RequestTable::add(Request request) {
  const std::lock_guard lock(mutex_);
  std::uint64_t id = 0;
  do {
    id = random_u64();
  } while (id == 0 || requests_.contains(id));
  requests_.emplace(id, std::move(request));
  return id;
}

RequestTable::Taken RequestTable::take(std::uint64_t id, ripc_service_id from) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = requests_.find(id);
  if (found == requests_.end() || found->second.is_ending || (from != 0 && found->second.to != from)) return {};
  return requests_.extract(found);
}

std::uint64_t RequestTable::next(std::uint64_t id) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = requests_.upper_bound(id);
  return found == requests_.end() ? 0 : found->first;
}

ripc_status RequestTable::end(std::uint64_t id, Deadline deadline) noexcept {
  std::unique_lock lock(mutex_);
  auto found = requests_.find(id);
  // Another thread that cancels it removes it, if anyone does.
  while (found != requests_.end() && found->second.is_ending && !deadline.expired()) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    found = requests_.find(id);
  }
  if (found == requests_.end()) return RIPC_INVALID_ARGUMENT;
  Request& request = found->second;
  if (request.is_ending) return RIPC_TIMEOUT;
  request.is_ending = true;
  lock.unlock();
  // A write that does not finish must not hold back the other buffers.
  std::bitset<RIPC_MAX_RETURNS> ended;
  for (;;) {
    for (std::size_t index = 0; index < request.grants.size(); ++index)
      ended[index] = ended[index] || request.channel->end_grant(request.grants[index]) != RIPC_PENDING;
    if (ended.count() == request.grants.size() || deadline.expired()) break;
    std::this_thread::yield();
  }
  const bool is_over = ended.count() == request.grants.size();
  lock.lock();
  if (is_over) {
    const Taken destroyed_outside_the_lock = requests_.extract(found);
    lock.unlock();
    return RIPC_OK;
  }
  request.is_ending = false;
  request.cancelling = true;
  return RIPC_TIMEOUT;
}

Status RequestTable::cancel(std::uint64_t id, Deadline deadline) {
  switch (const ripc_status status = end(id, deadline)) {
    case RIPC_INVALID_ARGUMENT:
      return Status(status, "There is no such request: it was answered or cancelled before, or never made.");
    case RIPC_TIMEOUT:
      return Status(status,
                    "The peer is writing into a return buffer and does not finish; is it stopped? That buffer stays "
                    "the library's: cancel again when it runs or is dead.");
    default:
      return status;
  }
}

// All are looked at in turn: a peer that stands still must not take the time that others need to finish.
void RequestTable::cancel_all() noexcept {
  const Deadline deadline = Deadline::after(kWritePatience);
  for (bool waits = true; waits;) {
    waits = false;
    for (std::uint64_t id = next(0); id != 0; id = next(id)) waits |= end(id, Deadline(0)) == RIPC_TIMEOUT;
    if (deadline.expired()) return;
    if (waits) std::this_thread::yield();
  }
}

}  // namespace ripc::internal::core
