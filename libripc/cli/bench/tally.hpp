// SPDX-License-Identifier: Apache-2.0
// Counts what went wrong in a measurement, and how many payloads were checked.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "output.hpp"

namespace cli::bench {

struct Tally {
  std::uint64_t lost = 0;
  std::uint64_t corrupt = 0;
  std::uint64_t checked = 0;        // payloads looked at: whole if small, else both ends
  std::uint64_t checked_whole = 0;  // large payloads of which every byte was compared

  void check(bool good) {
    ++checked;
    if (!good) ++corrupt;
  }
  void check_whole(bool good) {
    ++checked_whole;
    if (!good) ++corrupt;
  }
  void put(Json& json) const {
    json["lost"] = lost;
    json["corrupt"] = corrupt;
    json["payloads_checked"] = checked;
    json["payloads_checked_whole"] = checked_whole;
  }
};

}  // namespace cli::bench
