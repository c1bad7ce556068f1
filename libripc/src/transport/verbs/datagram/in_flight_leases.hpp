// SPDX-License-Identifier: Apache-2.0
// Leases that were given away with messages, while the device may still read them. Their owner's lock guards it.
//
// Completions are rarely asked for and looked at, so the amount of memory held is limited; the caller copies what does
// not fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "transport/verbs/device/registrar.hpp"

namespace ripc::internal::verbs {

class InFlightLeases {
 public:
  static constexpr std::size_t kMost = std::size_t{256} << 10;      // bytes of leases
  static constexpr std::size_t kMostOfOne = std::size_t{64} << 10;  // bytes of a lease
  static constexpr std::size_t kMostUnsignalled = kMost / 4;

  // Whether the device may read one more range, in this memory.
  bool has_room(const LocalMemory& memory) const noexcept { return bytes_ + memory.hold.lease_size() <= kMost; }
  static bool takes(const LocalMemory& memory) noexcept {
    return memory.region != nullptr && memory.hold.lease_size() <= kMostOfOne;
  }
  // Adds memory that the work request with this number reads; the numbers grow. Throws std::bad_alloc.
  void add(std::uint64_t request, LocalMemory&& memory) {
    const std::size_t bytes = memory.hold.lease_size();
    reads_.push_back({request, bytes, std::move(memory)});
    bytes_ += bytes;
    unsignalled_ += bytes;
  }
  // Whether the work request that reads the memory added last should have a completion.
  bool wants_completion() const noexcept { return unsignalled_ >= kMostUnsignalled; }
  // Call it when a work request after all those added has a completion.
  void has_completion() noexcept { unsignalled_ = 0; }
  // Call it when the device has finished the work requests before this one.
  void release_before(std::uint64_t request) noexcept {
    while (!reads_.empty() && reads_.front().request < request) {
      bytes_ -= reads_.front().bytes;
      reads_.pop_front();
    }
  }

 private:
  struct Read {
    std::uint64_t request;
    std::size_t bytes;
    LocalMemory memory;
  };
  std::deque<Read> reads_;
  std::size_t bytes_ = 0;
  std::size_t unsignalled_ = 0;
};

}  // namespace ripc::internal::verbs
