// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ripc::internal::verbs {

inline constexpr std::size_t kReceiveBatch = 16;  // receives that are posted at a time

inline ibv_sge range_of(const void* memory, std::size_t size, std::uint32_t local_key) noexcept {
  return {
      .addr = reinterpret_cast<std::uint64_t>(memory), .length = static_cast<std::uint32_t>(size), .lkey = local_key};
}

// Posts `count` receives: fill(index, range) sets the buffer of each, and returns the number of its work request.
// Returns 0 or an errno; it fails only if the device is gone.
template <typename Fill>
int post_receives(ibv_qp* pair, std::size_t count, const Fill& fill) noexcept {
  std::array<ibv_sge, kReceiveBatch> ranges;
  std::array<ibv_recv_wr, kReceiveBatch> requests;
  for (std::size_t first = 0; first < count; first += kReceiveBatch) {
    const std::size_t size = std::min(kReceiveBatch, count - first);
    for (std::size_t index = 0; index < size; ++index) {
      requests[index] = {.wr_id = fill(first + index, ranges[index]),
                         .next = index + 1 == size ? nullptr : &requests[index + 1],
                         .sg_list = &ranges[index],
                         .num_sge = 1};
    }
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(pair, requests.data(), &bad); error != 0) return error;
  }
  return 0;
}

}  // namespace ripc::internal::verbs
