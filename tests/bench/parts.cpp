// SPDX-License-Identifier: Apache-2.0
// Measures what the parts of a message over shared memory cost, between two processes on two processors. The parts are
// a bare cache line, the packet queue without the layers above it, and the barrier of a receiver that goes to sleep.
//
//   bench_parts [BYTES [ROUNDS]]      default: packets of 84 bytes (64 of payload), five rounds
//
// Prints one JSON object for each round, in nanoseconds. It has the medians of 100,000 round trips of the line and of
// the queue, and the means of 2,000 barriers. The barriers run while the other processor is idle, and while it runs a
// process that takes part.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/copy.hpp"
#include "base/process_barrier.hpp"
#include "transport/shm/queue.hpp"

namespace {

using namespace ripc::internal;       // NOLINT: a program of the library's own parts
using namespace ripc::internal::shm;  // NOLINT

constexpr int kTrips = 100'000;
constexpr int kBarriers = 2000;
constexpr Geometry kGeometry{1024, 1 << 20};

struct Lines {
  alignas(256) std::atomic<std::uint64_t> there;
  alignas(256) std::atomic<std::uint64_t> back;
  alignas(256) std::atomic<int> spin;  // the other side runs
};

void* share(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("bench_parts: mmap");
    std::exit(1);
  }
  return memory;
}

void pin_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(processor), &set);
  (void)sched_setaffinity(0, sizeof set, &set);
}

// One process's ends of the two queues.
class Side {
 public:
  Side(std::byte* out, std::byte* in, std::size_t size)
      : writer_(out, kGeometry), reader_(in, kGeometry), size_(size) {}
  void send() {
    while (writer_.write_with(size_, [&](std::byte* to) { copy_small(to, bytes_.data(), size_); }) != RIPC_OK) {
    }
  }
  void receive() {
    std::span<const std::byte> packet;
    while (!reader_.peek(packet)) {
    }
    copy_small(bytes_.data(), packet.data(), std::min(packet.size(), bytes_.size()));
    reader_.pop();
    reader_.publish();
  }

 private:
  QueueWriter writer_;
  QueueReader reader_;
  std::array<std::byte, 4096> bytes_{};
  std::size_t size_;
};

void await(const std::atomic<std::uint64_t>& line, std::uint64_t value) {
  while (line.load(std::memory_order_acquire) != value) {
  }
}

[[noreturn]] void answer(Lines& lines, Side& side, int rounds) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin_to(1);
  (void)register_process_barrier();
  std::uint64_t value = 0;
  for (int round = 0; round < rounds; ++round) {
    for (int trip = 0; trip < kTrips; ++trip) {
      await(lines.there, ++value);
      lines.back.store(value, std::memory_order_release);
    }
    for (int trip = 0; trip < kTrips; ++trip) {
      side.receive();
      side.send();
    }
    while (lines.spin.load(std::memory_order_relaxed) == 2 * round + 1) {
    }
    while (lines.spin.load(std::memory_order_relaxed) != 2 * round + 3) usleep(1000);
  }
  _exit(0);
}

template <typename Trip>
Nanoseconds median(Trip&& trip) {
  std::vector<Nanoseconds> samples(kTrips);
  for (Nanoseconds& sample : samples) {
    const Nanoseconds start = monotonic_now();
    trip();
    sample = monotonic_now() - start;
  }
  std::nth_element(samples.begin(), samples.begin() + kTrips / 2, samples.end());
  return samples[kTrips / 2];
}

Nanoseconds barrier() {
  const Nanoseconds start = monotonic_now();
  for (int count = 0; count < kBarriers; ++count) (void)process_barrier();
  return (monotonic_now() - start) / kBarriers;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t size = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 84;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  if (size == 0 || size > 4096 || rounds < 1 || rounds > 1000) {
    std::fprintf(stderr, "bench_parts: takes 1 to 4096 bytes and 1 to 1000 rounds\n");
    return 2;
  }
  auto* there = static_cast<std::byte*>(share(kGeometry.total()));
  auto* back = static_cast<std::byte*>(share(kGeometry.total()));
  auto* lines = new (share(sizeof(Lines))) Lines{};
  lines->spin = 1;
  const pid_t other = fork();
  if (other < 0) {
    std::perror("bench_parts: fork");
    return 1;
  }
  if (other == 0) std::swap(there, back);
  Side side(there, back, size);
  if (other == 0) answer(*lines, side, rounds);
  pin_to(0);
  std::uint64_t value = 0;
  for (int round = 0; round < rounds; ++round) {
    const Nanoseconds line = median([&] {
      lines->there.store(++value, std::memory_order_release);
      await(lines->back, value);
    });
    const Nanoseconds queue = median([&] {
      side.send();
      side.receive();
    });
    const Nanoseconds busy = barrier();
    lines->spin.store(2 * round + 2, std::memory_order_relaxed);
    usleep(50'000);
    const Nanoseconds idle = barrier();
    lines->spin.store(2 * round + 3, std::memory_order_relaxed);
    std::printf(
        "{\"cacheline_rtt_ns\": %llu, \"queue_rtt_ns\": %llu, \"ratio\": %.2f, \"barrier_busy_ns\": %llu, "
        "\"barrier_idle_ns\": %llu}\n",
        static_cast<unsigned long long>(line), static_cast<unsigned long long>(queue),
        static_cast<double>(queue) / static_cast<double>(std::max<Nanoseconds>(line, 1)),
        static_cast<unsigned long long>(busy), static_cast<unsigned long long>(idle));
    std::fflush(stdout);
  }
  int status = 0;
  return waitpid(other, &status, 0) == other && status == 0 ? 0 : 1;
}
