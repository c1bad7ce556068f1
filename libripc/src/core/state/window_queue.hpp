// SPDX-License-Identifier: Apache-2.0
// Receive windows in posting order, of one service or of a context.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <span>

#include "base/status.hpp"
#include "wire/packet.hpp"

namespace ripc::internal::core {

struct Window {
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::uint64_t cookie = 0;
  std::uint64_t number = 0;  // posting order in its queue
};

// Any thread.
class WindowQueue {
 public:
  // An application that posts endlessly gets an error before it uses up the memory.
  static constexpr std::size_t kLimit = 65536;

  // One window that was taken out; empty() if there was none. Taking it and giving it back takes no memory.
  using Taken = std::list<Window>;

  Status post(void* data, std::size_t size, std::uint64_t cookie) {
    const std::lock_guard lock(mutex_);
    if (windows_.size() >= kLimit)
      return Status(RIPC_LIMIT, "65536 receive windows are posted already: receive or withdraw some first.");
    windows_.push_back({static_cast<std::byte*>(data), size, cookie, next_number_});
    ++next_number_;
    return {};
  }

  Taken take() noexcept {
    const std::lock_guard lock(mutex_);
    Taken taken;
    if (!windows_.empty()) taken.splice(taken.begin(), windows_, windows_.begin());
    return taken;
  }

  // Whether these items would each find a window now, in this order, with `spare` windows left.
  bool has_room_for(std::span<const wire::Descriptor> items, std::size_t spare) const {
    const std::lock_guard lock(mutex_);
    if (windows_.size() < spare || windows_.size() - spare < items.size()) return false;
    return std::equal(items.begin(), items.end(), windows_.begin(),
                      [](const wire::Descriptor& item, const Window& window) { return item.length <= window.size; });
  }

  // Takes a window for each of these items, in this order, from `first` while it has some and then from `next`: all of
  // them, with `spare` windows left, or none. Returns how many come from `first`.
  static std::optional<std::size_t> take_all(WindowQueue& first, WindowQueue& next,
                                             std::span<const wire::Descriptor> items, std::size_t spare,
                                             std::span<Taken> taken) {
    const std::scoped_lock lock(first.mutex_, next.mutex_);
    if (first.windows_.size() + next.windows_.size() < items.size() + spare) return std::nullopt;
    auto window = first.windows_.begin();
    for (const wire::Descriptor& item : items) {
      if (window == first.windows_.end()) window = next.windows_.begin();
      if (item.length > window->size) return std::nullopt;
      ++window;
    }
    const std::size_t own = std::min(items.size(), first.windows_.size());
    for (std::size_t index = 0; index < items.size(); ++index) {
      std::list<Window>& from = (index < own ? first : next).windows_;
      taken[index].splice(taken[index].begin(), from, from.begin());
    }
    return own;
  }

  // Puts back a window that was not used, at its old place.
  void give_back(Taken&& window) noexcept {
    const std::lock_guard lock(mutex_);
    auto position = windows_.begin();
    while (position != windows_.end() && position->number < window.front().number) ++position;
    windows_.splice(position, window);
  }

  std::size_t withdraw(std::uint64_t cookie) {
    const std::lock_guard lock(mutex_);
    return std::erase_if(windows_, [&](const Window& window) { return window.cookie == cookie; });
  }

 private:
  mutable std::mutex mutex_;
  std::list<Window> windows_;
  std::uint64_t next_number_ = 0;
};

}  // namespace ripc::internal::core
