// SPDX-License-Identifier: Apache-2.0
// The rails that lead to a service, as people and scripts see them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "output.hpp"
#include "ripc/ripc.hpp"

namespace cli {

// One line for each: "eth0, 10.0.0.1 to 10.0.0.2: 48 MiB, 67 %, 9.41 MB/s".
std::vector<std::string> rail_lines(const std::vector<ripc::RailInfo>& rails);

// An array with one object for each. What is not known is null.
Json to_json(const std::vector<ripc::RailInfo>& rails);

// What each has carried.
std::uint64_t bytes_of(const ripc::RailInfo& rail) noexcept;
std::uint64_t bytes_of(const std::vector<ripc::RailInfo>& rails) noexcept;

// What each has carried since it was in the state `before`.
std::vector<ripc::RailInfo> rails_since(const std::vector<ripc::RailInfo>& before, std::vector<ripc::RailInfo> rails);

}  // namespace cli
