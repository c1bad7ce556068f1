// SPDX-License-Identifier: Apache-2.0
// One sender sends short messages to one receiver as fast as possible. Every payload is compared, and every gap is
// counted. Over sockets, blocks of messages alternate with blocks of bare datagrams of the same size.
#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "bench/options.hpp"
#include "bench/pair.hpp"
#include "bench/payload.hpp"
#include "bench/sockets.hpp"
#include "bench/tally.hpp"
#include "bench/ticks.hpp"

namespace cli::bench {
namespace {

enum RateCommand : std::uint64_t { kMessages = 0, kBare = 1 };
constexpr std::size_t kBatch = 64;
constexpr std::uint64_t kBlocks = 10;               // of each kind, where there are two
constexpr auto kSilence = std::chrono::seconds(2);  // after this long, missing messages count as lost

bool has_bare(const BenchOptions& options) { return options.transport == "socket"; }
// Room for a sequence number.
std::size_t bare_size(const BenchOptions& options) { return std::max(options.size, sizeof(std::uint64_t)); }

// Sends `count` messages from number `first` on, options.batch with each call.
ripc::Error send_all(Library& library, const BenchOptions& options, std::uint64_t first, std::uint64_t count) {
  std::vector<std::vector<std::byte>> payloads(options.batch, std::vector<std::byte>(options.size));
  std::vector<ripc::Item> items;
  std::vector<ripc::OutgoingMessage> messages;
  for (const auto& payload : payloads) items.push_back(ripc::short_item(payload));
  for (const ripc::Item& item : items) messages.push_back(ripc::outgoing_message({&item, 1}));
  for (std::uint64_t sent = 0; sent < count;) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(options.batch, count - sent));
    for (std::size_t index = 0; index < wanted; ++index) fill_pattern(payloads[index], first + sent + index);
    std::span<const ripc::OutgoingMessage> rest = std::span(messages).first(wanted);
    while (!rest.empty()) {
      if (options.batch == 1) {
        auto ticket = library.service.send(library.peer, {rest.front().items, 1});
        if (ticket.code() == RIPC_AGAIN) ticket = send_patiently(library, {rest.front().items, 1});
        if (!ticket.ok()) return ticket.error();
        rest = rest.subspan(1);
        continue;
      }
      const auto taken = library.service.send_many(library.peer, rest);
      if (taken.ok()) {
        rest = rest.subspan(*taken);
      } else if (taken.code() != RIPC_AGAIN) {
        return taken.error();
      } else if (const auto error = library.service.wait_room(library.peer, kSilence); !error.ok()) {
        return error;
      }
    }
    sent += wanted;
  }
  return {};
}

ripc::Error rate_side(Side& side, const BenchOptions& options, const SocketPair& sockets) {
  auto library = open_library(side, options);
  if (!library.ok()) return library.error();
  while (const auto order = side.control.receive()) {
    if (order->kind == kBare)
      if (const auto error = send_datagrams(sockets, bare_size(options), order->count); !error.ok()) return error;
    if (order->kind == kMessages)
      if (const auto error = send_all(*library, options, order->first, order->count); !error.ok()) return error;
    if (!side.control.send(*order)) break;
  }
  return {};
}

struct Received {
  std::uint64_t nanoseconds = 0;  // from the first batch to the last
  std::uint64_t after_first = 0;  // messages in that time
  std::vector<double> rates;      // messages per second of each of some fifty parts
};

// Receives `count` messages, which begin with sequence number `first`.
ripc::Result<Received> receive_all(Library& library, const BenchOptions& options, std::uint64_t first,
                                   std::uint64_t count, Tally& tally) {
  std::array<ripc::Message, kBatch> messages;
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
    for (std::size_t index = 0; index < *batch; ++index) {
      const ripc::ItemView view = messages[index].item(0);
      bool good = view.ok() && view.size() == options.size && check_pattern(view.bytes(), expected);
      if (!good && view.ok() && view.size() == options.size && options.size >= sizeof(expected)) {
        // This is not the next message. If it is intact, those in between are lost.
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

// Messages per second of bare datagrams that arrived.
ripc::Result<double> bare_block(Side& side, const BenchOptions& options, const SocketPair& sockets, std::uint64_t count,
                                Tally& tally) {
  if (!side.control.send({kBare, count, 0})) return other_side_ended();
  const auto arrived = receive_datagrams(
      sockets, bare_size(options), [&] { return side.control.has_said(); }, tally);
  if (!arrived.ok()) return arrived.error();
  if (!side.control.receive()) return other_side_ended();
  return static_cast<double>(arrived->messages) * 1e9 /
         static_cast<double>(std::max<std::uint64_t>(arrived->nanoseconds, 1));
}

BenchResult measure_rate(Side& side, const BenchOptions& options, const SocketPair& sockets) {
  auto library = open_library(side, options);
  if (!library.ok()) return library.error();
  Tally tally;
  Received received;
  std::vector<double> bare;
  std::vector<double> ratios;
  const std::uint64_t blocks = has_bare(options) ? kBlocks : 1;
  const std::uint64_t warm_up = std::max<std::uint64_t>(options.iterations / 20, 1);
  std::uint64_t first = 0;
  for (std::uint64_t block = 0; block <= blocks; ++block) {
    const std::uint64_t count = block == 0 ? warm_up : std::max<std::uint64_t>(options.iterations / blocks, 1);
    double bare_rate = 0;
    if (has_bare(options)) {
      const auto measured = bare_block(side, options, sockets, count, tally);
      if (!measured.ok()) return measured.error();
      bare_rate = *measured;
    }
    if (!side.control.send({kMessages, count, first})) return other_side_ended();
    const auto part = receive_all(*library, options, first, count, tally);
    if (!part.ok()) return part.error();
    if (!side.control.receive()) return other_side_ended();
    first += count;
    if (block == 0) continue;
    received.after_first += part->after_first;
    received.nanoseconds += part->nanoseconds;
    received.rates.insert(received.rates.end(), part->rates.begin(), part->rates.end());
    bare.push_back(bare_rate);
    ratios.push_back(static_cast<double>(part->after_first) * 1e9 /
                     static_cast<double>(std::max<std::uint64_t>(part->nanoseconds, 1)) / std::max(bare_rate, 1.0));
  }
  const double rate = static_cast<double>(received.after_first) * 1e9 /
                      static_cast<double>(std::max<std::uint64_t>(received.nanoseconds, 1));
  Json json;
  json["messages_per_second"] = rate;
  json["bytes_per_second"] = rate * static_cast<double>(options.size);
  // If other programs disturb the measurement, this figure is nearer to what the path can do.
  json["batch"] = options.batch;
  json["median_part_messages_per_second"] = median(received.rates);
  if (has_bare(options)) {
    json["bare_messages_per_second"] = median(bare);
    json["ratio_to_bare"] = median(ratios);
  }
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
  if (actual.batch == 0) actual.batch = kBatch;
  SocketPair sockets;
  if (has_bare(actual))
    if (const auto error = sockets.open(); !error.ok()) return error;
  return run_pair(
      actual, [&](Side& side) { return rate_side(side, actual, sockets); },
      [&](Side& side) { return measure_rate(side, actual, sockets); });
}

}  // namespace cli::bench
