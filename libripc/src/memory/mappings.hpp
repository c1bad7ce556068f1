// SPDX-License-Identifier: Apache-2.0
// What the kernel says about the memory mappings of this process. Nothing here allocates memory. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ripc::memory {

// Addresses, from `start` to before `end`.
struct AddressRange {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;

  bool empty() const noexcept { return start >= end; }
  std::size_t size() const noexcept { return empty() ? 0 : end - start; }
  bool contains(const AddressRange& other) const noexcept { return start <= other.start && other.end <= end; }
  bool overlaps(const AddressRange& other) const noexcept { return start < other.end && other.start < end; }
  AddressRange clipped_to(const AddressRange& other) const noexcept {
    return {start > other.start ? start : other.start, end < other.end ? end : other.end};
  }
  friend bool operator==(const AddressRange&, const AddressRange&) noexcept = default;
};

std::size_t page_size() noexcept;
// The pages that these bytes lie in. Empty if there are no bytes, or if they run past the end of the address space.
AddressRange pages_of(const void* data, std::size_t size) noexcept;

struct Mapping {
  AddressRange range;  // empty: none
  // Memory of this process alone that comes from no file and can be written: malloc(), private anonymous mmap(). Not
  // the main thread's stack, nor huge pages of hugetlbfs.
  bool plain = false;
};

// The mapping that holds the address. Takes the longer the more mappings there are.
Mapping find_mapping(std::uintptr_t address) noexcept;
// Whether all of the range is plain memory. An empty range is not.
bool is_plain_memory(const AddressRange& range) noexcept;
// Whether all pages of the range are there: none was never touched, and none was given back since it was.
bool is_resident(const AddressRange& range) noexcept;
// Makes all pages of the range be there, as a write to each would. False: it cannot be written.
bool make_resident(const AddressRange& range) noexcept;

}  // namespace ripc::memory
