// SPDX-License-Identifier: Apache-2.0
// One sender to one receiver, short messages as fast as they go. Every payload is compared, every gap is counted.
#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "bench/options.hpp"
#include "bench/pair.hpp"
#include "bench/payload.hpp"
#include "bench/tally.hpp"
#include "bench/ticks.hpp"

namespace cli::bench {
namespace {

constexpr std::size_t kBatch = 64;
constexpr auto kSilence = std::chrono::seconds(2);  // after this long what is missing is lost

libripc::Error other_side(Side& side, const BenchOptions& options) {
  auto library = open_library(side, options);
  if (!library.ok()) return library.error();
  std::vector<std::byte> payload(options.size);
  const std::array<libripc::Item, 1> items = {libripc::short_item(payload)};
  while (const auto order = side.control.receive()) {
    for (std::uint64_t sequence = order->first; sequence < order->first + order->count; ++sequence) {
      fill_pattern(payload, sequence);
      auto ticket = library->service.send(library->peer, items);
      if (ticket.code() == RIPC_AGAIN) ticket = send_patiently(*library, items);
      if (!ticket.ok()) return ticket.error();
    }
    if (!side.control.send(*order)) break;
  }
  return {};
}

struct Received {
  std::uint64_t messages = 0;
  std::uint64_t nanoseconds = 0;  // from the first batch to the last
  std::uint64_t after_first = 0;  // messages in that time
  std::vector<double> rates;      // messages per second of each of some fifty parts
};

// Takes `count` messages that begin with sequence number `first`.
libripc::Result<Received> receive_all(Library& library, const BenchOptions& options, std::uint64_t first,
                                      std::uint64_t count, Tally& tally) {
  std::array<libripc::Message, kBatch> messages;
  Received received;
  std::uint64_t expected = first;
  std::uint64_t started = 0;
  std::uint64_t now = 0;
  std::uint64_t part_started = 0;
  std::uint64_t part_messages = 0;
  const std::uint64_t part_size = std::max<std::uint64_t>(count / 50, kBatch);
  while (expected < first + count) {
    const auto batch = library.service.receive_many(messages, kSilence);
    if (!batch.ok() && batch.code() == RIPC_TIMEOUT) break;
    if (!batch.ok()) return batch.error();
    now = monotonic_now();
    if (started == 0) {
      started = part_started = now;
    } else {
      received.after_first += *batch;
      part_messages += *batch;
    }
    if (part_messages >= part_size && now > part_started) {
      received.rates.push_back(static_cast<double>(part_messages) * 1e9 / static_cast<double>(now - part_started));
      part_started = now;
      part_messages = 0;
    }
    received.messages += *batch;
    for (std::size_t index = 0; index < *batch; ++index) {
      const libripc::ItemView view = messages[index].item(0);
      bool good = view.ok() && view.size() == options.size && check_pattern(view.bytes(), expected);
      if (!good && view.ok() && view.size() == options.size && options.size >= sizeof(expected)) {
        // Not the next one. If it is whole, those between are lost.
        const std::uint64_t sequence = sequence_of(view.bytes());
        if (sequence > expected && sequence < first + count && check_pattern(view.bytes(), sequence)) {
          tally.lost += sequence - expected;
          expected = sequence;
          good = true;
        }
      }
      tally.check(good);
      ++expected;
      messages[index].release();
    }
  }
  tally.lost += first + count - std::min(expected, first + count);
  received.nanoseconds = now - started;
  return received;
}

BenchResult measure(Side& side, const BenchOptions& options) {
  auto library = open_library(side, options);
  if (!library.ok()) return library.error();
  Tally tally;
  Received received;
  const std::uint64_t warm_up = std::max<std::uint64_t>(options.iterations / 20, 1);
  std::uint64_t first = 0;
  for (const std::uint64_t count : {warm_up, options.iterations}) {
    if (!side.control.send({0, count, first})) return other_side_ended();
    auto part = receive_all(*library, options, first, count, tally);
    if (!part.ok()) return part.error();
    received = *part;
    if (!side.control.receive()) return other_side_ended();
    first += count;
  }
  const double rate = received.nanoseconds == 0
                          ? 0
                          : static_cast<double>(received.after_first) * 1e9 / static_cast<double>(received.nanoseconds);
  Json json;
  json["messages_per_second"] = rate;
  json["bytes_per_second"] = rate * static_cast<double>(options.size);
  // Where other programs disturb the measurement, this is nearer to what the path can do.
  json["median_part_messages_per_second"] = median(received.rates);
  tally.put(json);
  json["verification"] = "every payload compared whole";
  if (const auto statistics = library->service.statistics(); statistics.ok()) {
    json["receiver_sleeps"] = statistics->sleeps;
    json["packets_lost"] = statistics->packets_lost;
  }
  return json;
}

}  // namespace

BenchResult run_rate(const BenchOptions& options) {
  BenchOptions actual = options;
  if (actual.iterations == 0) {
    const std::uint64_t by_size = (std::uint64_t{4} << 30) / std::max<std::uint64_t>(options.size, 1);
    actual.iterations = std::clamp<std::uint64_t>(by_size, 1000, options.transport == "shm" ? 5'000'000 : 500'000);
  }
  auto result = run_pair(
      actual, [&](Side& side) { return other_side(side, actual); }, [&](Side& side) { return measure(side, actual); });
  if (result.ok()) (*result)["iterations"] = actual.iterations;
  return result;
}

}  // namespace cli::bench
