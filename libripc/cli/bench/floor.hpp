// SPDX-License-Identifier: Apache-2.0
// What round trips are compared with, in the same run: bare cache-line round trips between the two processors for
// shared memory, bare UDP round trips with as many bytes and the same way of waiting for sockets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/options.hpp"
#include "bench/pair.hpp"
#include "bench/sockets.hpp"
#include "bench/tally.hpp"

namespace cli::bench {

class Floor {
 public:
  explicit Floor(const BenchOptions& options) : options_(options) {}

  // Before the fork.
  ripc::Error open() { return is_socket() ? sockets_.open() : ripc::Error(); }

  // The two sides: `count` round trips, whose times are appended to samples.
  ripc::Error measure(Side& side, std::uint64_t count, std::vector<double>& samples, Tally& tally) {
    if (is_socket()) return measure_datagrams(sockets_, size(), count, options_.wait == "spin", samples, tally);
    measure_cacheline(side, Lines::two_lines, count, samples);
    return {};
  }
  ripc::Error answer(Side& side, std::uint64_t count) {
    if (is_socket()) return answer_datagrams(sockets_, size(), count, options_.wait == "spin");
    answer_cacheline(side, Lines::two_lines, count);
    return {};
  }

  // Round trips of one block. A sleeping receiver's floor in shared memory is the scheduler, not the cache, and a UDP
  // round trip needs no large number: one short look is enough for each.
  std::uint64_t rounds(std::uint64_t block_rounds, bool is_first) const {
    if (is_socket()) return std::min<std::uint64_t>(block_rounds, 10'000);
    return options_.wait == "spin" || is_first ? std::min<std::uint64_t>(block_rounds, 100'000) : 0;
  }
  // Of the fields in the result.
  std::string name() const { return is_socket() ? "udp" : "cacheline"; }

 private:
  bool is_socket() const { return options_.transport == "socket" && options_.kind == "short"; }

  // An empty datagram would look like the end.
  std::size_t size() const { return std::max<std::size_t>(options_.size, 1); }

  const BenchOptions& options_;
  SocketPair sockets_;
};

}  // namespace cli::bench
