// SPDX-License-Identifier: Apache-2.0
// What an endpoint counts for one method, either for its calls or for its requests.
#pragma once

#include "base/histogram.hpp"
#include "ripc/rpc.h"

namespace ripc::internal::rpc {

struct MethodRecord {
  ripc_rpc_method_statistics counters{};
  Histogram time;
  Nanoseconds answer_time = 0;  // since the call was sent, smoothed; 0: unknown

  // Whether the time of call `number`, counted from 0, is measured where nothing else needs the clock. Reading it costs
  // 25 ns.
  static constexpr bool is_measured(std::uint64_t number) noexcept { return number < 64 || number % 16 == 0; }
  ripc_latency latency() const noexcept {
    static_assert(RIPC_LATENCY_RANGES == Histogram::kBitsOfLargest);
    ripc_latency latency = {time.count(),   time.minimum(), time.mean(), time.at(0.5), time.at(0.9), time.at(0.99),
                            time.at(0.999), time.maximum(), {}};
    for (unsigned bit = 0; bit < RIPC_LATENCY_RANGES; ++bit) latency.histogram[bit] = time.count_of_power(bit);
    return latency;
  }
};

}  // namespace ripc::internal::rpc
