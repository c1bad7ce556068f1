// SPDX-License-Identifier: Apache-2.0
#include "rails.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

namespace cli {
namespace {

// The rail's share of all bytes carried, in percent.
double share_of(const ripc::RailInfo& rail, std::uint64_t all) {
  return static_cast<double>(bytes_of(rail)) * 100 / static_cast<double>(all);
}

std::string figures_of(const ripc::RailInfo& rail, std::uint64_t all) {
  std::string text;
  if (all != 0) {
    text = format_bytes(bytes_of(rail)) + ", " + std::to_string(std::lround(share_of(rail, all))) + " %, ";
    if (rail.connections == 0) return text + "no connection now";
  }
  text += rail.rate == 0 ? "not measured yet" : format_rate(static_cast<double>(rail.rate));
  return text + (rail.spare ? ", a spare because it is slow" : "");
}

}  // namespace

std::uint64_t bytes_of(const ripc::RailInfo& rail) noexcept { return rail.bytes_sent + rail.bytes_received; }

std::uint64_t bytes_of(const std::vector<ripc::RailInfo>& rails) noexcept {
  return std::transform_reduce(rails.begin(), rails.end(), std::uint64_t{0}, std::plus<>(),
                               [](const ripc::RailInfo& rail) { return bytes_of(rail); });
}

std::vector<std::string> rail_lines(const std::vector<ripc::RailInfo>& rails) {
  const std::uint64_t all = bytes_of(rails);
  std::vector<std::string> lines;
  for (const ripc::RailInfo& rail : rails)
    lines.push_back(rail.device + ", " + rail.local + " to " + rail.peer + ": " + figures_of(rail, all));
  return lines;
}

Json to_json(const std::vector<ripc::RailInfo>& rails) {
  const std::uint64_t all = bytes_of(rails);
  Json list = Json::array();
  for (const ripc::RailInfo& rail : rails)
    list.push_back({{"device", rail.device},
                    {"local", rail.local},
                    {"peer", rail.peer},
                    {"connections", rail.connections},
                    {"bytes_sent", rail.bytes_sent},
                    {"bytes_received", rail.bytes_received},
                    {"share_percent", all == 0 ? Json(nullptr) : Json(share_of(rail, all))},
                    {"bytes_per_second", rail.rate == 0 ? Json(nullptr) : Json(rail.rate)},
                    {"spare", rail.spare}});
  return list;
}

std::vector<ripc::RailInfo> rails_since(const std::vector<ripc::RailInfo>& before, std::vector<ripc::RailInfo> rails) {
  for (ripc::RailInfo& rail : rails) {
    const auto former = std::find_if(before.begin(), before.end(),
                                     [&](const ripc::RailInfo& other) { return other.peer == rail.peer; });
    // Counters start from 0 with each connection.
    if (former == before.end() || former->bytes_sent > rail.bytes_sent || former->bytes_received > rail.bytes_received)
      continue;
    rail.bytes_sent -= former->bytes_sent;
    rail.bytes_received -= former->bytes_received;
  }
  return rails;
}

}  // namespace cli
