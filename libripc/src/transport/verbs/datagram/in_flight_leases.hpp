// SPDX-License-Identifier: Apache-2.0
// Leases that were given away with messages, while the device may still read them. Their owner's lock guards it.
//
// A completion is asked for and looked at seldom, so only so much memory is taken: what does not fit is to be copied.
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

  // Whether one more range of this may be read by the device.
  bool has_room(const LocalMemory& memory) const noexcept { return bytes_ + memory.hold.lease_size() <= kMost; }
  static bool takes(const LocalMemory& memory) noexcept {
    return memory.region != nullptr && memory.hold.lease_size() <= kMostOfOne;
  }
  // Is read by the work request with this number, which grows.
  void add(std::uint64_t request, LocalMemory&& memory) {
    const std::size_t bytes = memory.hold.lease_size();
    bytes_ += bytes;
    unsignalled_ += bytes;
    reads_.push_back({request, bytes, std::move(memory)});
  }
  // Whether the work request that reads what was added last should have a completion.
  bool wants_completion() const noexcept { return unsignalled_ >= kMostUnsignalled; }
  // A work request has one that comes after all that were added.
  void has_completion() noexcept { unsignalled_ = 0; }
  // The device is through with the work requests before this one.
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
