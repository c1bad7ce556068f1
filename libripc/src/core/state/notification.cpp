// SPDX-License-Identifier: Apache-2.0
#include "core/state/notification.hpp"

#include <array>
#include <new>

#include "base/random.hpp"
#include "wire/packet.hpp"

namespace ripc::internal::core {

std::uint64_t NotificationTable::add(ripc_notification_callback callback, void* user) {
  const std::lock_guard lock(mutex_);
  std::uint64_t handle = 0;
  do {
    handle = random_u64();
  } while (handle == 0 || entries_.contains(handle));
  entries_.emplace(handle, std::make_shared<Entry>(Entry{callback, user}));
  return handle;
}

bool NotificationTable::remove(std::uint64_t handle) noexcept {
  std::unique_lock lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return false;
  const std::shared_ptr<Entry> entry = found->second;
  entries_.erase(found);
  // Inside the callback itself, waiting for it would never end.
  if (!loop_.in_loop_thread()) idle_.wait(lock, [&] { return !entry->running; });
  return true;
}

void NotificationTable::remove_all() noexcept {
  for (;;) {
    std::uint64_t handle = 0;
    {
      const std::lock_guard lock(mutex_);
      if (entries_.empty()) return;
      handle = entries_.begin()->first;
    }
    (void)remove(handle);
  }
}

void NotificationTable::arrived(spi::Bytes packet) noexcept {
  if (waiting_.fetch_add(1, std::memory_order_relaxed) < kMaxWaiting) {
    try {
      loop_.post_top_level([self = shared_from_this(), copy = std::vector<std::byte>(packet.begin(), packet.end())] {
        self->run(copy);
      });
      return;
    } catch (const std::bad_alloc&) {
      // Dropped, like one notification too many.
    }
  }
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  unknown_.fetch_add(1, std::memory_order_relaxed);
}

void NotificationTable::run(const std::vector<std::byte>& bytes) noexcept {
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  wire::Packet packet;
  if (!packet.decode(bytes).ok() || packet.kind() != wire::PacketKind::notification) {
    unknown_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const auto items = packet.items();
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(packet.number(items[0]));
    if (found == entries_.end()) {
      unknown_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    entry = found->second;
    entry->running = true;
  }
  std::array<ripc_item_view, RIPC_MAX_ITEMS> views;
  std::size_t count = 0;
  for (const wire::DecodedItem& item : items.subspan(1)) {
    views[count++] = {.data = packet.body(item).data(),
                      .size = item.length,
                      .kind = RIPC_VIEW_SHORT,
                      .status = RIPC_OK,
                      .cookie = 0,
                      .return_index = 0,
                      .copied = 1};
  }
  run_.fetch_add(1, std::memory_order_relaxed);
  entry->callback(entry->user, packet.source(), views.data(), count);
  const std::lock_guard lock(mutex_);
  entry->running = false;
  idle_.notify_all();
}

}  // namespace ripc::internal::core
