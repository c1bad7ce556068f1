// SPDX-License-Identifier: Apache-2.0
// The common part of the programs that tests/bench/compare runs next to `ripc bench`: everything but the connection.
// The two sides are two processes, so that each can run on its own processor:
//
//   PROGRAM serve ADDRESS latency|rate|bandwidth SIZE COUNT
//   PROGRAM run   ADDRESS latency|rate|bandwidth SIZE COUNT
//
// latency: COUNT round trips of SIZE bytes; rate and bandwidth: COUNT messages of SIZE bytes one way, then one byte
// back when the last one has been read. `run` prints one JSON object: p50_ns (of a round trip; 0 unless latency) and
// seconds (for everything). The receiver reads each message whole, as a protocol with lengths does. Both sides end
// after 60 seconds.
#pragma once

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace pair_program {

inline double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <typename Link>
void serve(Link& link, bool echo, std::size_t size, std::size_t count) {
  std::vector<char> bytes(size), end(1);
  for (std::size_t i = 0; i < count; ++i) {
    link.receive(bytes);
    if (echo) link.send(bytes);
  }
  if (!echo) link.send(end);
}

template <typename Link>
void run(Link& link, bool echo, std::size_t size, std::size_t count) {
  std::vector<char> bytes(size, 'x'), end(1);
  std::vector<double> samples;
  samples.reserve(count);
  const double start = now();
  for (std::size_t i = 0; i < count; ++i) {
    const double before = echo ? now() : 0;
    link.send(bytes);
    if (!echo) continue;
    link.receive(bytes);
    samples.push_back(now() - before);
  }
  if (!echo) link.receive(end);
  const double seconds = now() - start;
  std::sort(samples.begin(), samples.end());
  std::printf("{\"p50_ns\": %.1f, \"seconds\": %.9f}\n", echo ? samples[samples.size() / 2] * 1e9 : 0.0, seconds);
}

// Link(address, serve) connects the two sides; send() and receive() move all the bytes, or end the program.
template <typename Link>
int main(int argc, char** argv) {
  constexpr unsigned kSeconds = 60;
  const std::size_t size = argc == 6 ? std::strtoull(argv[4], nullptr, 10) : 0;
  const std::size_t count = argc == 6 ? std::strtoull(argv[5], nullptr, 10) : 0;
  const std::string_view side = argc == 6 ? argv[1] : "", test = argc == 6 ? argv[3] : "";
  const bool known = (side == "serve" || side == "run") && (test == "latency" || test == "rate" || test == "bandwidth");
  if (!known || size == 0 || count == 0) {
    std::fprintf(stderr, "usage: %s serve|run ADDRESS latency|rate|bandwidth SIZE COUNT\n", argv[0]);
    return 2;
  }
  ::alarm(kSeconds);
  Link link(argv[2], side == "serve");
  (side == "serve" ? serve<Link> : run<Link>)(link, test == "latency", size, count);
  return 0;
}

}  // namespace pair_program
