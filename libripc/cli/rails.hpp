// SPDX-License-Identifier: Apache-2.0
// The rails that lead to a service, as users and scripts see them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "output.hpp"
#include "ripc/ripc.hpp"

namespace cli {

// One line for each: "eth0, 10.0.0.1 to 10.0.0.2: 48 MiB, 67 %, 9.41 MB/s".
std::vector<std::string> rail_lines(const std::vector<ripc::RailInfo>& rails);

// An array with one object for each rail. Unknown values are null.
Json to_json(const std::vector<ripc::RailInfo>& rails);

// The bytes that the rail, or all of them, have carried.
std::uint64_t bytes_of(const ripc::RailInfo& rail) noexcept;
std::uint64_t bytes_of(const std::vector<ripc::RailInfo>& rails) noexcept;

// The rails, with what each has carried since the state `before`.
std::vector<ripc::RailInfo> rails_since(const std::vector<ripc::RailInfo>& before, std::vector<ripc::RailInfo> rails);

}  // namespace cli
