// SPDX-License-Identifier: Apache-2.0
// The time of a message over its size, for each way that a payload can travel on a path. It also shows which way AUTO
// takes. Uses the round trips of pingpong.cpp, with a fresh pair of processes for each. Each round goes through all
// points.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "bench/options.hpp"

namespace cli::bench {
namespace {

// AUTO goes first: the way it takes shows whether a payload of this size can be short at all.
constexpr std::array<const char*, 5> kProtocols = {"auto", "short", "long", "return", "lend"};
constexpr std::uint64_t kStep = 4;
constexpr double kClose = 1.1;  // of the best

struct Point {
  std::string chosen;                                // by AUTO: short, or long
  std::map<std::string, std::vector<double>> times;  // by protocol: nanoseconds of a message, one of each round
};

std::uint64_t round_trips(const BenchOptions& options, std::uint64_t size) {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 28;
  return options.iterations != 0 ? options.iterations : std::clamp<std::uint64_t>(kBytes / size, 20, 4000);
}

// The time of a request of a few bytes, or of its answer. It is measured in each round, and subtracted from round trips
// that carry their payload only one way.
ripc::Result<double> small_way(const BenchOptions& options, Json& sums) {
  BenchOptions one = options;
  one.bench = "pingpong";
  one.kind = "short";
  one.size = sizeof(std::uint64_t);
  one.iterations = round_trips(options, one.size);
  auto result = run_pingpong(one);
  if (!result.ok()) return result.error();
  for (auto& [key, sum] : sums.items()) sum = sum.get<std::uint64_t>() + (*result)[key].get<std::uint64_t>();
  return (*result)["rtt_ns"]["p50"].get<double>() / 2;
}

ripc::Error measure_point(const BenchOptions& options, std::uint64_t size, double small, Point& point, Json& sums) {
  for (const std::string protocol : kProtocols) {
    if (protocol == "short" && point.chosen != "short") continue;
    BenchOptions one = options;
    one.bench = "pingpong";
    one.kind = protocol;
    one.size = size;
    one.iterations = round_trips(options, size);
    auto result = run_pingpong(one);
    if (!result.ok()) return result.error();
    if (protocol == "auto") point.chosen = (*result)["travels"].get<std::string>();
    const double round_trip = (*result)["rtt_ns"]["p50"].get<double>();
    const bool is_one_way = protocol == "return" || protocol == "lend";
    point.times[protocol].push_back(is_one_way ? std::max(round_trip - small, 0.0) : round_trip / 2);
    for (auto& [key, sum] : sums.items()) sum = sum.get<std::uint64_t>() + (*result)[key].get<std::uint64_t>();
  }
  return {};
}

}  // namespace

BenchResult run_protocols(const BenchOptions& options) {
  std::map<std::uint64_t, Point> points;
  Json sums = {{"lost", 0}, {"corrupt", 0}, {"payloads_checked", 0}, {"payloads_checked_whole", 0}};
  for (std::uint64_t run = 0; run < options.runs; ++run) {
    const auto small = small_way(options, sums);
    if (!small.ok()) return small.error();
    for (std::uint64_t size = 1; size <= options.size; size *= kStep)
      if (const auto error = measure_point(options, size, *small, points[size], sums); !error.ok()) return error;
  }
  Json json;
  json["points"] = Json::array();
  json["not_within_10_percent"] = Json::array();
  for (const auto& [size, point] : points) {
    Json times;
    for (const char* protocol : kProtocols) {
      const auto found = point.times.find(protocol);
      times[protocol] = found == point.times.end() ? Json(nullptr) : Json(median(found->second));
    }
    // AUTO cannot take the other ways, which need the receiver's consent, or memory that the sender does not change. It
    // has no choice for payloads that cannot be short.
    if (!times["short"].is_null()) {
      const double best = std::min(times["short"].get<double>(), times["long"].get<double>());
      if (times["auto"].get<double>() > best * kClose) json["not_within_10_percent"].push_back(size);
    }
    json["points"].push_back({{"size", size}, {"chosen", point.chosen}, {"message_ns", times}});
  }
  json.update(sums);
  json["iterations"] = options.iterations;
  return json;
}

void print_protocols(const Json& json) {
  std::vector<std::vector<std::string>> rows = {{"size"}};
  std::string first_long;  // the smallest that cannot be short
  rows.front().insert(rows.front().end(), kProtocols.begin(), kProtocols.end());
  for (const Json& point : json["points"]) {
    rows.push_back({format_bytes(point["size"].get<std::uint64_t>())});
    if (first_long.empty() && point["message_ns"]["short"].is_null()) first_long = rows.back().front();
    for (const auto& [protocol, time] : point["message_ns"].items()) {
      const char* mark = protocol == point["chosen"].get<std::string>() ? " *" : "";
      rows.back().push_back(time.is_null() ? "-" : format_nanoseconds(time.get<double>()) + mark);
    }
  }
  print_table(rows);
  std::string sizes;
  for (const Json& size : json["not_within_10_percent"])
    sizes += (sizes.empty() ? "" : ", ") + format_bytes(size.get<std::uint64_t>());
  const std::string compared = first_long.empty() ? "every size" : "every size below " + first_long;
  std::printf("\n* what AUTO takes, of short and long. The column auto has the copy of what is long as well.\n");
  std::printf("AUTO is %s.\n", sizes.empty() ? ("within 10 % of the faster one at " + compared).c_str()
                                             : ("not within 10 % of the faster one at " + sizes).c_str());
  if (!first_long.empty())
    std::printf("From %s on a payload cannot be short, so AUTO has no choice.\n", first_long.c_str());
}

}  // namespace cli::bench
