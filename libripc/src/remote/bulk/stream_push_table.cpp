// SPDX-License-Identifier: Apache-2.0
#include "remote/bulk/stream_push_table.hpp"

namespace ripc::internal::remote {

namespace bulk = wire::bulk;

Reading StreamPush::read(std::uint64_t offset, std::uint64_t length) noexcept {
  std::unique_lock lock(mutex_);
  if (!is_pending()) return {.status = RIPC_CANCELLED};
  note_progress();
  return {std::move(lock), bytes_.subspan(offset, length), RIPC_OK};
}

Job StreamPush::job(std::shared_ptr<StreamPush> self) const noexcept {
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

std::shared_ptr<StreamPush> StreamPushTable::open(const wire::Grant& grant, spi::Bytes bytes) {
  const std::lock_guard lock(mutex_);
  if (dead_) return nullptr;
  auto push = std::make_shared<StreamPush>(grant, bytes, next_id_);
  entries_.emplace(next_id_, push);
  next_id_ += 2;
  return push;
}

void StreamPushTable::place_all(const std::shared_ptr<StreamConnection>& connection) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [id, push] : entries_) {
    if (push->connection == nullptr && connection->add_job(push->job(push))) push->connection = connection.get();
  }
}

void StreamPushTable::connection_lost(const StreamConnection& connection) noexcept {
  end_all(RIPC_UNSUPPORTED, [&](const StreamPush& push) { return push.connection == &connection; });
}

void StreamPushTable::died() noexcept {
  {
    const std::lock_guard lock(mutex_);
    dead_ = true;
  }
  end_all(RIPC_PEER_DEAD, [](const StreamPush&) { return true; });
}

void StreamPushTable::answered(const StreamConnection& connection, const bulk::Frame& frame) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(frame.id);
  if (found == entries_.end() || found->second->connection != &connection) return;
  const auto status = static_cast<ripc_status>(frame.value);
  found->second->end(status == RIPC_OK || status == RIPC_REVOKED ? status : RIPC_UNSUPPORTED);
}

}  // namespace ripc::internal::remote
