// SPDX-License-Identifier: Apache-2.0
// What a load generator counts and prints.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

namespace kv {

using Clock = std::chrono::steady_clock;

class Report {
 public:
  explicit Report(std::size_t expected) { nanoseconds_.reserve(expected); }

  // Starts the measurement.
  void start() {
    *this = Report(nanoseconds_.capacity());
    begin_ = Clock::now();
  }
  void ended(Clock::time_point start, Clock::time_point end, bool is_right) {
    nanoseconds_.push_back(static_cast<std::uint32_t>(std::min<std::int64_t>((end - start).count(), UINT32_MAX)));
    end_ = end;
    if (!is_right) ++wrong;
  }
  std::size_t size() const { return nanoseconds_.size(); }
  bool is_clean() const { return wrong == 0 && failed == 0; }

  nlohmann::ordered_json json() {
    const double seconds = std::chrono::duration<double>(end_ - begin_).count();
    const auto part = [this](double share) -> std::uint32_t {
      if (nanoseconds_.empty()) return 0;
      const auto at = static_cast<std::size_t>(share * static_cast<double>(nanoseconds_.size() - 1));
      std::nth_element(nanoseconds_.begin(), nanoseconds_.begin() + static_cast<std::ptrdiff_t>(at),
                       nanoseconds_.end());
      return nanoseconds_[at];
    };
    return {{"operations", size()}, {"per_second", seconds > 0 ? static_cast<double>(size()) / seconds : 0},
            {"wrong", wrong},       {"failed", failed},
            {"p50_ns", part(0.5)},  {"p99_ns", part(0.99)}};
  }

  std::uint64_t wrong = 0;   // answers that are not what was stored
  std::uint64_t failed = 0;  // operations without an answer

 private:
  std::vector<std::uint32_t> nanoseconds_;  // of each operation
  Clock::time_point begin_, end_;
};

}  // namespace kv
