// SPDX-License-Identifier: Apache-2.0
// The common part of the echo programs of scripts/bench-rpc-peers. Each program has two sides, which are two processes:
//
//   PROGRAM serve ADDRESS                       until it is killed
//   PROGRAM run ADDRESS WINDOW COUNT            COUNT calls of 32 bytes, WINDOW of them at a time; prints JSON
//
// ADDRESS is the path of a Unix socket, or a TCP port of this host.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace peers {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kSize = 32;

struct Address {
  explicit Address(const char* text) : path(text[0] == '/' ? text : ""), port(path.empty() ? std::atoi(text) : 0) {}
  std::string path;
  int port;
};

// The calls of one slot of the window. They run one after the other, in one thread at a time.
class Slot {
 public:
  Slot(std::uint64_t index, std::uint64_t step, std::uint64_t count) : next_(index), step_(step), count_(count) {}

  // The next call's bytes; empty after the last one.
  std::string begin() {
    if (next_ >= count_) return {};
    std::string bytes(kSize, '\0');
    std::memcpy(bytes.data(), &next_, sizeof next_);
    std::memset(bytes.data() + sizeof next_, static_cast<int>(next_ & 0x7f), kSize - sizeof next_);
    sent_ = bytes;
    start_ = Clock::now();
    return bytes;
  }
  void end(std::string_view answer) {
    samples_.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start_).count());
    if (answer != sent_) ++wrong_;
    next_ += step_;
  }
  const std::vector<double>& samples() const { return samples_; }
  std::uint64_t wrong() const { return wrong_; }

 private:
  std::uint64_t next_, step_, count_;
  std::uint64_t wrong_ = 0;
  std::string sent_;
  Clock::time_point start_;
  std::vector<double> samples_;
};

using Slots = std::vector<Slot>;

// serve(address) does not return. run(address, slots) makes the calls of all slots, and may run twice.
template <typename Serve, typename Run>
int main(int argc, char** argv, Serve serve, Run run) {
  const std::string_view side = argc > 2 ? argv[1] : "";
  if (side == "serve" && argc == 3) return serve(Address(argv[2])), 1;
  const std::uint64_t window = argc == 5 ? std::strtoull(argv[3], nullptr, 10) : 0;
  const std::uint64_t count = argc == 5 ? std::strtoull(argv[4], nullptr, 10) : 0;
  if (side != "run" || window == 0 || count < 20) {
    std::fprintf(stderr, "usage: %s serve ADDRESS | run ADDRESS WINDOW COUNT\n", argv[0]);
    return 2;
  }
  std::vector<double> samples;
  std::uint64_t wrong = 0;
  double seconds = 0;
  for (const std::uint64_t calls : {count / 20, count}) {  // the first warms up
    Slots slots;
    for (std::uint64_t index = 0; index < window; ++index) slots.emplace_back(index, window, calls);
    const auto start = Clock::now();
    run(Address(argv[2]), slots);
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
    samples.clear();
    for (const Slot& slot : slots) {
      samples.insert(samples.end(), slot.samples().begin(), slot.samples().end());
      wrong += slot.wrong();
    }
    if (samples.size() != calls)
      return std::fprintf(stderr, "%s: %zu calls were answered\n", argv[0], samples.size()), 1;
  }
  std::sort(samples.begin(), samples.end());
  std::printf("{\"p50_ns\": %.1f, \"per_second\": %.1f, \"wrong\": %llu}\n", samples[samples.size() / 2],
              static_cast<double>(count) / seconds, static_cast<unsigned long long>(wrong));
  return wrong == 0 ? 0 : 1;
}

}  // namespace peers
