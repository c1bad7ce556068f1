// SPDX-License-Identifier: Apache-2.0
// UDP and TCP over the loopback interface, as a program without libripc would use them: the baseline for the socket
// transport.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "bench/tally.hpp"
#include "ripc/ripc.hpp"

namespace cli::bench {

// Both ends of a connected UDP pair and of a TCP connection, made before the fork. Index 0 is the measuring side's.
struct SocketPair {
  std::array<int, 2> datagram = {-1, -1};
  std::array<int, 2> stream = {-1, -1};

  SocketPair() = default;
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;
  ~SocketPair();
  ripc::Error open();
};

// Round trips of `size` bytes each way: `count` on each side. `spin`: waits by polling with MSG_DONTWAIT, else in a
// blocking call.
ripc::Error measure_round_trips(const std::array<int, 2>& sockets, std::size_t size, std::uint64_t count, bool spin,
                                std::vector<double>& samples, Tally& tally);
ripc::Error answer_round_trips(const std::array<int, 2>& sockets, std::size_t size, std::uint64_t count, bool spin);

// One direction, to the measuring side, as fast as it goes.
ripc::Error send_stream(const SocketPair& sockets, ripc::Bytes bytes);
ripc::Error receive_stream(const SocketPair& sockets, ripc::WritableBytes bytes);

// Datagrams of `size` bytes (8 at least) one way, 64 for each sendmmsg() and recvmmsg(). The kernel drops what does not
// fit into the socket's buffer, because datagrams have no flow control.
ripc::Error send_datagrams(const SocketPair& sockets, std::size_t size, std::uint64_t count);
// Receives until `is_over` and no datagram is left: how many arrived, and the time from the first batch to the last.
struct Arrived {
  std::uint64_t messages = 0;  // after the first batch
  std::uint64_t nanoseconds = 0;
};
ripc::Result<Arrived> receive_datagrams(const SocketPair& sockets, std::size_t size,
                                        const std::function<bool()>& is_over, Tally& tally);

}  // namespace cli::bench
