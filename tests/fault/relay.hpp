// SPDX-License-Identifier: Apache-2.0
// A bad cable: moves IP packets between two interfaces and loses, delays, reorders and duplicates some of them, as a
// seeded generator decides. For machines whose kernel has no netem.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

#include "fault_support.hpp"

namespace fault {

// Counts are per thousand packets; each packet is decided on separately.
struct Weather {
  std::uint64_t lost = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;  // held for some milliseconds, so that later packets overtake
  std::uint64_t delay = 0;      // of all packets, in nanoseconds
  std::size_t longest = 65536;  // in bytes; longer packets are silently lost
};

class Relay {
 public:
  // The ends are TUN descriptors, which the relay owns.
  Relay(int one, int other, std::uint64_t seed);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Any thread.
  void set(const Weather& weather);
  // Drops one IP protocol from the first end and one from the other; 0: none.
  void filter(int from_one, int from_other);
  // The next packet that asks for a TCP connection is lost.
  void lose_next_dial() { loses_dial_ = true; }
  std::uint64_t lost() const { return lost_.load(); }
  std::uint64_t duplicated() const { return duplicated_.load(); }
  std::uint64_t reordered() const { return reordered_.load(); }

 private:
  struct Packet {
    std::uint64_t due;
    std::uint64_t number;  // packets that are due together keep their order
    int to;
    std::vector<std::byte> bytes;
    friend bool operator>(const Packet& left, const Packet& right) {
      return left.due != right.due ? left.due > right.due : left.number > right.number;
    }
  };
  void run();
  void take(std::size_t from);
  void deliver_due();

  const int ends_[2];
  int wake_ = -1;
  std::mutex mutex_;
  Weather weather_;
  int filtered_[2] = {0, 0};
  std::atomic<std::uint64_t> lost_{0}, duplicated_{0}, reordered_{0};
  std::atomic<bool> stopping_{false}, loses_dial_{false};
  // Used only by the relay's thread.
  Random random_;
  std::priority_queue<Packet, std::vector<Packet>, std::greater<>> packets_;
  std::uint64_t next_number_ = 0;
  std::thread thread_;
};

}  // namespace fault
