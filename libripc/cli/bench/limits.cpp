// SPDX-License-Identifier: Apache-2.0
// What the machine itself can do without libripc: the baseline for libripc's figures.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "bench/options.hpp"
#include "bench/pair.hpp"
#include "bench/payload.hpp"
#include "bench/sockets.hpp"
#include "bench/tally.hpp"

namespace cli::bench {
namespace {

constexpr std::size_t kRoundTrip = 64;                         // bytes each way
constexpr std::size_t kStreamBuffer = std::size_t{256} << 10;  // sent and received again and again

enum LimitsCommand : std::uint64_t { kFill = 1, kTwoLines, kSameLine, kUdp, kTcp, kTcpStream };

// A memfd like libripc's: 2 MiB aligned mappings, with huge pages if the kernel provides them. One process writes it,
// the other maps it read-only.
class SharedFile {
 public:
  explicit SharedFile(std::size_t size) : size_(size) {}
  ~SharedFile() {
    if (fd_ >= 0) close(fd_);
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  ripc::Error create() {
    fd_ = memfd_create("ripc-bench", MFD_CLOEXEC);
    if (fd_ < 0) return system_error("memfd_create");
    return ftruncate(fd_, static_cast<off_t>(size_)) == 0 ? ripc::Error() : system_error("ftruncate");
  }
  // Never unmapped: it lives as long as the process.
  ripc::Result<std::byte*> map(int protection) const {
    constexpr std::size_t kHuge = std::size_t{2} << 20;
    void* room = mmap(nullptr, size_ + kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return system_error("mmap");
    const auto address = (reinterpret_cast<std::uintptr_t>(room) + kHuge - 1) / kHuge * kHuge;
    void* base = mmap(reinterpret_cast<void*>(address), size_, protection, MAP_SHARED | MAP_FIXED, fd_, 0);
    if (base == MAP_FAILED) return system_error("mmap");
    (void)madvise(base, size_, MADV_HUGEPAGE);
    return static_cast<std::byte*>(base);
  }

 private:
  std::size_t size_;
  int fd_ = -1;
};

ripc::Error limits_side(Side& side, const BenchOptions& options, const SharedFile& file, SocketPair& sockets) {
  pin_to(side.processor);
  while (const auto order = side.control.receive()) {
    ripc::Error error;
    if (order->kind == kFill) {
      auto memory = file.map(PROT_READ | PROT_WRITE);
      if (!memory.ok()) return memory.error();
      fill_pattern({*memory, options.size}, order->first);
    }
    if (!side.control.send(*order)) break;  // ready
    if (order->kind == kTwoLines) answer_cacheline(side, Lines::two_lines, order->count);
    if (order->kind == kSameLine) answer_cacheline(side, Lines::same_line, order->count);
    if (order->kind == kUdp || order->kind == kTcp)
      error = answer_round_trips(order->kind == kUdp ? sockets.datagram : sockets.stream, kRoundTrip, order->count,
                                 options.wait == "spin");
    if (order->kind == kTcpStream) {
      std::vector<std::byte> buffer(kStreamBuffer);
      fill_pattern(buffer, 0);
      for (std::uint64_t sent = 0; sent < order->count && error.ok(); ++sent) error = send_stream(sockets, buffer);
    }
    if (!error.ok()) return error;
  }
  return {};
}

class Limits {
 public:
  Limits(Side& side, const BenchOptions& options, const SharedFile& file, SocketPair& sockets)
      : side_(side), options_(options), file_(file), sockets_(sockets) {}

  BenchResult run() {
    pin_to(side_.processor);
    Json json;
    const bool spin = options_.wait == "spin";
    const std::uint64_t rounds = options_.iterations;
    std::vector<double> samples;
    for (const LimitsCommand command : {kTwoLines, kSameLine}) {
      samples.clear();
      if (!order(command, rounds)) return other_side_ended();
      if (!measure_cacheline(side_, command == kTwoLines ? Lines::two_lines : Lines::same_line, rounds, samples))
        return other_side_ended();
      put(json, command == kTwoLines ? "cacheline_rtt" : "cacheline_same_line_rtt", samples);
    }

    auto copied = copy();
    if (!copied.ok()) return copied.error();
    json["memcpy_bytes_per_second"] = *copied;

    const std::uint64_t socket_rounds = std::max<std::uint64_t>(rounds / 10, 100);
    for (const LimitsCommand command : {kUdp, kTcp}) {
      samples.clear();
      if (!order(command, socket_rounds)) return other_side_ended();
      const auto error = measure_round_trips(command == kUdp ? sockets_.datagram : sockets_.stream, kRoundTrip,
                                             socket_rounds, spin, samples, tally_);
      if (!error.ok()) return error;
      put(json, command == kUdp ? "udp_rtt" : "tcp_rtt", samples);
    }

    auto rate = stream();
    if (!rate.ok()) return rate.error();
    json["tcp_bytes_per_second"] = *rate;
    json["rtt_payload_bytes"] = kRoundTrip;
    tally_.put(json);
    return json;
  }

 private:
  bool order(LimitsCommand command, std::uint64_t count) const {
    return side_.control.send({command, count, 0}) && side_.control.receive().has_value();
  }

  void put(Json& json, const std::string& name, std::vector<double>& samples) {
    const Json figures = percentiles(samples);
    json[name + "_ns"] = figures["p50"];
    json[name + "_percentiles_ns"] = figures;
  }

  // A gibibyte at the default number of iterations.
  ripc::Result<double> stream() {
    const std::uint64_t buffers = std::clamp<std::uint64_t>(options_.iterations >> 5, 32, 4096);
    if (!order(kTcpStream, buffers + 1)) return other_side_ended();
    std::vector<std::byte> buffer(kStreamBuffer);
    std::uint64_t start = 0;
    for (std::uint64_t received = 0; received <= buffers; ++received) {
      if (const auto error = receive_stream(sockets_, buffer); !error.ok()) return error;
      if (received == 0) start = monotonic_now();
    }
    const std::uint64_t duration = std::max<std::uint64_t>(monotonic_now() - start, 1);
    tally_.check_whole(check_pattern(buffer, 0));
    return static_cast<double>(buffers * kStreamBuffer) * 1e9 / static_cast<double>(duration);
  }

  // Median over several blocks of copies.
  ripc::Result<double> copy() {
    constexpr std::uint64_t kSeed = 0;
    if (!order(kFill, 1)) return other_side_ended();
    auto source = file_.map(PROT_READ);
    if (!source.ok()) return source.error();
    std::vector<std::byte> destination(options_.size);
    const std::uint64_t block_bytes = std::clamp<std::uint64_t>(options_.iterations << 12, 1 << 22, 1 << 28);
    const std::uint64_t copies = std::max<std::uint64_t>(block_bytes / options_.size, 2);
    constexpr int kBlocks = 12;
    std::vector<double> rates;
    for (int block = 0; block < kBlocks; ++block) {
      const std::uint64_t start = monotonic_now();
      for (std::uint64_t index = 0; index < copies; ++index) {
        std::memcpy(destination.data(), *source, options_.size);
        asm volatile("" ::: "memory");
      }
      const std::uint64_t duration = std::max<std::uint64_t>(monotonic_now() - start, 1);
      if (block > 0) rates.push_back(static_cast<double>(copies * options_.size) * 1e9 / static_cast<double>(duration));
    }
    tally_.check_whole(check_pattern(destination, kSeed));
    return median(rates);
  }

  Side& side_;
  const BenchOptions& options_;
  const SharedFile& file_;
  SocketPair& sockets_;
  Tally tally_;
};

}  // namespace

BenchResult run_limits(const BenchOptions& options) {
  BenchOptions actual = options;
  if (actual.iterations == 0) actual.iterations = 200'000;
  SharedFile file(actual.size);
  if (const auto error = file.create(); !error.ok()) return error;
  SocketPair sockets;
  if (const auto error = sockets.open(); !error.ok()) return error;
  return run_pair(
      actual, [&](Side& side) { return limits_side(side, actual, file, sockets); },
      [&](Side& side) { return Limits(side, actual, file, sockets).run(); });
}

}  // namespace cli::bench
