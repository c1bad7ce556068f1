// SPDX-License-Identifier: Apache-2.0
#include "transport/socket/stream_push_table.hpp"

#include <algorithm>

#include "base/loop_wait.hpp"

namespace ripc::socket {

namespace bulk = wire::bulk;

// ---- OutgoingPush --------------------------------------------------------------------------------------------

Reading OutgoingPush::read(std::uint64_t offset, std::uint64_t length) noexcept {
  std::unique_lock lock(mutex_);
  if (status() != RIPC_PENDING) return {.lock = {}, .bytes = {}, .status = RIPC_CANCELLED};
  reads_.fetch_add(1, std::memory_order_relaxed);
  return {std::move(lock), bytes_.subspan(offset, length), RIPC_OK};
}

void OutgoingPush::end(ripc_status status) noexcept {
  const std::lock_guard lock(mutex_);
  if (this->status() != RIPC_PENDING) return;
  status_.store(status, std::memory_order_release);
  ended_.notify_all();
}

ripc_status OutgoingPush::wait(EventLoop& loop, Nanoseconds patience) noexcept {
  std::uint64_t seen = reads_.load(std::memory_order_relaxed);
  while (status() == RIPC_PENDING) {
    {
      std::unique_lock lock(mutex_);
      (void)wait_in(loop, lock, ended_, Deadline::after(patience), [&] { return status() != RIPC_PENDING; });
    }
    if (seen == reads_.load(std::memory_order_relaxed)) end(RIPC_UNSUPPORTED);
    seen = reads_.load(std::memory_order_relaxed);
  }
  // Whoever ended it may still hold the mutex, and nobody may read when this is over.
  const std::lock_guard lock(mutex_);
  return status();
}

Job OutgoingPush::job(std::shared_ptr<OutgoingPush> self) const noexcept {
  return {.frame = {.type = bulk::Type::push,
                    .length = 0,
                    .id = id_,
                    .key = grant_.key,
                    .location = grant_.location,
                    .offset = 0,
                    .value = bytes_.size()},
          .end = bytes_.size(),
          .key = 0,
          .location = 0,
          .push = std::move(self)};
}

// ---- StreamPushTable ------------------------------------------------------------------------------------------------

std::shared_ptr<OutgoingPush> StreamPushTable::open(const wire::Grant& grant, spi::Bytes bytes) {
  const std::lock_guard lock(mutex_);
  if (dead_) return nullptr;
  const std::uint64_t id = next_id_++;
  auto push = std::make_shared<OutgoingPush>(grant, bytes, id);
  entries_.emplace(id, Entry{.push = push});
  return push;
}

void StreamPushTable::close(const OutgoingPush& push) noexcept {
  const std::lock_guard lock(mutex_);
  entries_.erase(push.id());
}

bool StreamPushTable::place(Entry& entry, BulkConnection& connection) noexcept {
  entry.connection = connection.add_job(entry.push->job(entry.push)) ? &connection : nullptr;
  return entry.connection != nullptr;
}

bool StreamPushTable::place(const OutgoingPush& push, BulkConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(push.id());
  return found != entries_.end() && (found->second.connection != nullptr || place(found->second, connection));
}

void StreamPushTable::place_all(BulkConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [id, entry] : entries_) {
    if (entry.connection == nullptr) (void)place(entry, connection);
  }
}

void StreamPushTable::no_connection() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [id, entry] : entries_) {
    if (entry.connection == nullptr) entry.push->end(RIPC_UNSUPPORTED);
  }
}

void StreamPushTable::connection_lost(const BulkConnection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [id, entry] : entries_) {
    if (entry.connection == &connection) entry.push->end(RIPC_UNSUPPORTED);
  }
}

void StreamPushTable::died() noexcept {
  const std::lock_guard lock(mutex_);
  dead_ = true;
  for (auto& [id, entry] : entries_) entry.push->end(RIPC_PEER_DEAD);
}

void StreamPushTable::answered(const BulkConnection& connection, const bulk::Frame& frame) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(frame.id);
  if (found == entries_.end() || found->second.connection != &connection) return;
  const auto status = static_cast<ripc_status>(frame.value);
  found->second.push->end(status == RIPC_OK || status == RIPC_REVOKED ? status : RIPC_UNSUPPORTED);
}

bool StreamPushTable::has_backlog() const noexcept {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto& entry) { return entry.second.connection == nullptr; });
}

}  // namespace ripc::socket
