// SPDX-License-Identifier: Apache-2.0
// UDP and TCP over the loopback interface, as a program without libripc would use them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "bench/tally.hpp"
#include "ripc/ripc.hpp"

namespace cli::bench {

inline constexpr std::size_t kSocketPayload = 64;  // bytes of a round trip, each way

// Both ends of a connected UDP pair and of a TCP connection, made before the fork. Index 0 is the measuring side's.
struct SocketPair {
  std::array<int, 2> datagram = {-1, -1};
  std::array<int, 2> stream = {-1, -1};

  SocketPair() = default;
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;
  ~SocketPair();
  libripc::Error open();
};

// Round trips: `count` on each side. Waiting is polling with MSG_DONTWAIT if `spin`, else a blocking call.
libripc::Error measure_datagrams(const SocketPair& sockets, std::uint64_t count, bool spin,
                                 std::vector<double>& samples, Tally& tally);
libripc::Error answer_datagrams(const SocketPair& sockets, std::uint64_t count, bool spin);
libripc::Error measure_stream(const SocketPair& sockets, std::uint64_t count, bool spin, std::vector<double>& samples,
                              Tally& tally);
libripc::Error answer_stream(const SocketPair& sockets, std::uint64_t count, bool spin);

// One direction, as fast as it goes. Bytes per second.
libripc::Error send_stream_bytes(const SocketPair& sockets, std::uint64_t bytes);
libripc::Result<double> receive_stream_bytes(const SocketPair& sockets, std::uint64_t bytes, Tally& tally);

}  // namespace cli::bench
