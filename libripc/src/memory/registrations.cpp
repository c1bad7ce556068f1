// SPDX-License-Identifier: Apache-2.0
#include "memory/registrations.hpp"

#include <bit>

namespace ripc::internal::memory {

bool Registrations::add(std::byte* data, std::size_t size) {
  Ranges& ranges = by_magnitude_[static_cast<std::size_t>(std::bit_width(size)) - 1];
  const auto [position, is_new] = ranges.try_emplace(Key{reinterpret_cast<std::uintptr_t>(data), size}, 0);
  ++position->second;
  if (is_new) ++size_;
  return !is_new;
}

Registrations::Removal Registrations::remove(const void* data, std::span<std::byte>& range) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(data);
  for (Ranges& ranges : by_magnitude_) {
    const auto position = ranges.lower_bound(Key{start, 0});
    if (position == ranges.end() || position->first.first != start) continue;
    range = {reinterpret_cast<std::byte*>(start), position->first.second};
    if (--position->second > 0) return Removal::others_remain;
    ranges.erase(position);
    --size_;
    return Removal::last;
  }
  return Removal::unknown;
}

std::span<std::byte> Registrations::find(const void* data, std::size_t size) const noexcept {
  const auto wanted = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t magnitude = 0; magnitude < by_magnitude_.size(); ++magnitude) {
    const Ranges& ranges = by_magnitude_[magnitude];
    if (ranges.empty()) continue;
    const std::size_t largest = (std::size_t{2} << magnitude) - 1;
    Key best{0, 0};
    for (auto position = ranges.upper_bound(Key{wanted, SIZE_MAX}); position != ranges.begin();) {
      --position;
      const auto [start, reach] = position->first;
      if (wanted - start >= largest) break;  // nor can any that starts before reach the bytes
      const bool holds = wanted - start < reach && size <= reach - (wanted - start);
      if (holds && (best.second == 0 || reach < best.second)) best = position->first;
    }
    if (best.second != 0) return {reinterpret_cast<std::byte*>(best.first), best.second};
  }
  return {};
}

}  // namespace ripc::internal::memory
