// SPDX-License-Identifier: Apache-2.0
// The baseline that round trips are compared with, in the same run. For shared memory it is bare cache-line round trips
// between the two processors. For sockets it is bare UDP round trips of the same size and with the same way of waiting.
// Payloads that do not fit into an Ethernet datagram are compared with TCP.
#pragma once

#include <algorithm>
#include <array>
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
  explicit Floor(const BenchOptions& options) : options_(options), kind_(kind_of(options)) {}

  // Before the fork.
  ripc::Error open() { return kind_ == Kind::cacheline ? ripc::Error() : sockets_.open(); }

  // The two sides: `count` round trips, whose times are appended to samples.
  ripc::Error measure(Side& side, std::uint64_t count, std::vector<double>& samples, Tally& tally) {
    if (kind_ != Kind::cacheline) return measure_round_trips(sockets(), size(), count, spins(), samples, tally);
    return measure_cacheline(side, count, samples) ? ripc::Error() : other_side_ended();
  }
  ripc::Error answer(Side& side, std::uint64_t count) {
    if (kind_ != Kind::cacheline) return answer_round_trips(sockets(), size(), count, spins());
    answer_cacheline(side, count);
    return {};
  }

  // The number of round trips in one block. The floor of a sleeping receiver in shared memory is the scheduler, not the
  // cache, and round trips of sockets need no large number. One short measurement is enough for each.
  std::uint64_t rounds(std::uint64_t block_rounds, bool is_first) const {
    if (kind_ != Kind::cacheline) return std::min<std::uint64_t>(block_rounds, 10'000);
    return spins() || is_first ? std::min<std::uint64_t>(block_rounds, 100'000) : 0;
  }
  // The name of the fields in the result.
  std::string name() const { return kind_ == Kind::udp ? "udp" : kind_ == Kind::tcp ? "tcp" : "cacheline"; }

 private:
  enum class Kind { cacheline, udp, tcp };
  static Kind kind_of(const BenchOptions& options) {
    constexpr std::size_t kDatagram = 1400;
    // The other kinds have a short request and a long reply.
    const bool is_even = options.kind == "short" || options.kind == "auto" || options.kind == "long";
    if (options.transport != "socket" || !is_even) return Kind::cacheline;
    return options.size <= kDatagram && options.kind != "long" ? Kind::udp : Kind::tcp;
  }
  const std::array<int, 2>& sockets() const { return kind_ == Kind::udp ? sockets_.datagram : sockets_.stream; }
  bool spins() const { return options_.wait == "spin"; }

  // An empty datagram would look like the end of the connection.
  std::size_t size() const { return std::max<std::size_t>(options_.size, 1); }

  const BenchOptions& options_;
  const Kind kind_;
  SocketPair sockets_;
};

}  // namespace cli::bench
