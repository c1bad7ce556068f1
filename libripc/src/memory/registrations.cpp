// SPDX-License-Identifier: Apache-2.0
#include "memory/registrations.hpp"

#include <bit>
#include <utility>

namespace ripc::internal::memory {

bool Registrations::add(std::byte* data, std::size_t size) {
  Ranges& ranges = by_magnitude_[static_cast<std::size_t>(std::bit_width(size)) - 1];
  const Key key{reinterpret_cast<std::uintptr_t>(data), size};
  auto position = ranges.find(key);
  const bool is_new = position == ranges.end();
  if (is_new) {
    position = ranges.emplace(key, std::make_shared<Registration>()).first;
    ++size_;
  }
  ++position->second->count;
  return !is_new;
}

Registrations::Removal Registrations::remove(const void* data, std::span<std::byte>& range,
                                             std::shared_ptr<Registration>& ended) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(data);
  for (Ranges& ranges : by_magnitude_) {
    const auto position = ranges.lower_bound(Key{start, 0});
    if (position == ranges.end() || position->first.first != start) continue;
    range = {reinterpret_cast<std::byte*>(start), position->first.second};
    if (--position->second->count > 0) return Removal::others_remain;
    ended = std::move(position->second);
    ranges.erase(position);
    --size_;
    return Removal::last;
  }
  return Removal::unknown;
}

std::span<std::byte> Registrations::find(const void* data, std::size_t size) const noexcept {
  const Ranges::value_type* const found = look_up(data, size);
  if (found == nullptr) return {};
  return {reinterpret_cast<std::byte*>(found->first.first), found->first.second};
}

std::shared_ptr<Registration> Registrations::registration_of(const void* data, std::size_t size) const noexcept {
  const Ranges::value_type* const found = look_up(data, size);
  return found != nullptr ? found->second : nullptr;
}

const Registrations::Ranges::value_type* Registrations::look_up(const void* data, std::size_t size) const noexcept {
  const auto wanted = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t magnitude = 0; magnitude < by_magnitude_.size(); ++magnitude) {
    const Ranges& ranges = by_magnitude_[magnitude];
    if (ranges.empty()) continue;
    const std::size_t largest = (std::size_t{2} << magnitude) - 1;
    const Ranges::value_type* best = nullptr;
    for (auto position = ranges.upper_bound(Key{wanted, SIZE_MAX}); position != ranges.begin();) {
      --position;
      const auto [start, reach] = position->first;
      if (wanted - start >= largest) break;  // no range that starts earlier can reach the bytes
      const bool holds = wanted - start < reach && size <= reach - (wanted - start);
      if (holds && (best == nullptr || reach < best->first.second)) best = &*position;
    }
    if (best != nullptr) return best;
  }
  return nullptr;
}

}  // namespace ripc::internal::memory
