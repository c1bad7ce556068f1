// SPDX-License-Identifier: Apache-2.0
// Ranges of memory that the application registered. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "memory/residence.hpp"

namespace ripc::internal::memory {

class Registrations {
 public:
  // Counts one registration of a range that is not empty. True if the range was registered already. Throws
  // std::bad_alloc, with nothing changed.
  bool add(std::byte* data, std::size_t size);

  enum class Removal { unknown, others_remain, last };
  // Removes one registration of the smallest range that starts at `data`. `range` gets the range. If it was the range's
  // last registration, `ended` gets it, and the caller must end it.
  Removal remove(const void* data, std::span<std::byte>& range, std::shared_ptr<Registration>& ended) noexcept;

  // The smallest range that contains these bytes (at least one); empty if none does. O(log n) for each power of two
  // among the sizes in use, and linear only in overlapping ranges of about the same size.
  std::span<std::byte> find(const void* data, std::size_t size = 1) const noexcept;
  // The same, but returns the registration, which keeps the bytes mapped.
  std::shared_ptr<Registration> registration_of(const void* data, std::size_t size) const noexcept;

  std::size_t size() const noexcept { return size_; }  // different ranges

 private:
  using Key = std::pair<std::uintptr_t, std::size_t>;  // start, size
  using Ranges = std::map<Key, std::shared_ptr<Registration>>;

  const Ranges::value_type* look_up(const void* data, std::size_t size) const noexcept;

  std::array<Ranges, std::numeric_limits<std::size_t>::digits> by_magnitude_;  // [n]: sizes from 2^n to 2^(n+1) - 1
  std::size_t size_ = 0;
};

}  // namespace ripc::internal::memory
