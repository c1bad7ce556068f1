// SPDX-License-Identifier: Apache-2.0
// Round trips. With short, long and auto, the payload travels both ways. With return and lend, the other side replies
// to a short request: it writes the payload into a return buffer or lends it. Blocks of round trips alternate with
// blocks of bare ones (floor.hpp).
#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "bench/floor.hpp"
#include "bench/options.hpp"
#include "bench/pair.hpp"
#include "bench/payload.hpp"
#include "bench/tally.hpp"
#include "bench/ticks.hpp"

namespace cli::bench {
namespace {

using ripc::Item;

enum PingpongCommand : std::uint64_t { kEcho = 1, kFloor = 2 };
constexpr auto kReplyPatience = std::chrono::seconds(2);
constexpr std::size_t kBuffers = 4;        // a buffer is reused long after the message sent from it is complete
constexpr std::uint64_t kWholeEvery = 16;  // at most one in this many large payloads is compared whole
constexpr std::uint64_t kWholeBytes = std::uint64_t{4} << 30;  // and about this much in all

// Buffers for large payloads, and the tickets of the messages last sent from them.
struct Buffers {
  std::array<ripc::Buffer, kBuffers> memory;
  std::array<ripc::Ticket, kBuffers> tickets;

  ripc::Error make(ripc::Context& context, std::size_t size) {
    for (std::size_t index = 0; index < kBuffers; ++index) {
      auto lease = context.lease(size);
      if (!lease.ok()) return lease.error();
      memory[index] = *std::move(lease);
      prepare_large(memory[index].bytes(), index);
    }
    return {};
  }
  // The buffer for message `sequence`; waits until the peer has taken the last message sent from it.
  ripc::Result<ripc::WritableBytes> take(std::uint64_t sequence) {
    const std::size_t index = sequence % kBuffers;
    if (const ripc::Error error = tickets[index].wait(kReplyPatience); !error.ok()) return error;
    return memory[index].bytes();
  }
};

// ---- The other side ------------------------------------------------------------------------------------------

ripc::Error answer(Library& library, const BenchOptions& options, Buffers& buffers, std::uint64_t count,
                   std::uint64_t first) {
  const bool is_short = library.kind == "short";
  const bool is_long = library.kind == "long";
  const bool is_return = library.kind == "return";
  for (std::uint64_t sequence = first; sequence < first + count; ++sequence) {
    ripc::WritableBytes window;
    if (is_long) {
      auto buffer = buffers.take(sequence);
      if (!buffer.ok()) return buffer.error();
      window = *buffer;
      // The first window of the block was posted before the block began.
      if (sequence + 1 < first + count) {
        auto next = buffers.take(sequence + 1);
        if (!next.ok()) return next.error();
        if (const auto error = library.service.post_window(*next, sequence + 1); !error.ok()) return error;
      }
    }
    auto message = library.service.receive(kReplyPatience);
    if (!message.ok()) return message.error();
    const ripc::ItemView view = message->item(0);
    std::array<Item, 1> items;
    if (is_short) {
      items[0] = payload_item(options, view.bytes());
    } else if (is_long) {
      if (view.kind() != RIPC_VIEW_WINDOW) return ripc::Error(view.status());
      items[0] = payload_item(options, window);
    } else {
      const std::uint64_t asked = sequence_of(view.bytes());
      auto buffer = buffers.take(asked);
      if (!buffer.ok()) return buffer.error();
      write_large(*buffer, asked);
      items[0] = is_return ? ripc::return_item(*buffer, 0) : payload_item(options, *buffer);
    }
    auto ticket = library.service.reply(*message, items);
    if (ticket.code() == RIPC_AGAIN) [[unlikely]]
      ticket = reply_patiently(library, *message, items);
    if (!ticket.ok()) return ticket.error();
    if (!is_short) buffers.tickets[sequence % kBuffers] = *std::move(ticket);
  }
  return {};
}

ripc::Error pingpong_side(Side& side, const BenchOptions& options, Floor& floor) {
  auto library = open_library(side, options);
  if (!library.ok()) return library.error();
  Buffers buffers;
  if (library->kind != "short")
    if (const auto error = buffers.make(library->context, options.size); !error.ok()) return error;
  while (const auto order = side.control.receive()) {
    if (order->kind == kEcho && library->kind == "long") {
      auto window = buffers.take(order->first);
      if (!window.ok()) return window.error();
      if (const auto error = library->service.post_window(*window, order->first); !error.ok()) return error;
    }
    if (!side.control.send(*order)) break;  // ready
    const auto error = order->kind == kFloor ? floor.answer(side, order->count)
                                             : answer(*library, options, buffers, order->count, order->first);
    if (!error.ok()) return error;
  }
  // The last messages may still be travelling; the tickets must end before the context in any case.
  for (ripc::Ticket& ticket : buffers.tickets) (void)ticket.wait(kReplyPatience);
  return {};
}

// ---- The measuring side --------------------------------------------------------------------------------------

class Pinger {
 public:
  Pinger(Side& side, const BenchOptions& options, Library& library)
      : side_(side),
        options_(options),
        library_(library),
        request_(sizeof(std::uint64_t)),
        whole_every_(std::max(kWholeEvery, options.iterations * options.size / kWholeBytes)) {
    if (library.kind == "short") request_.resize(options.size);
    landing_.resize(library.kind == "long" || library.kind == "return" ? options.size : 0);
  }

  ripc::Error prepare() {
    return library_.kind == "long" ? buffers_.make(library_.context, options_.size) : ripc::Error();
  }

  // Makes `count` round trips, and appends the times of all but the first `warm_up` to samples.
  ripc::Error block(std::uint64_t count, std::uint64_t warm_up, std::vector<double>& samples) {
    if (const auto error = order(kEcho, count); !error.ok()) return error;
    const std::uint64_t end = sequence_ + count;
    for (std::uint64_t index = 0; sequence_ < end; ++sequence_, ++index) {
      double nanoseconds = 0;
      if (const auto error = round(index == 0 || sequence_ + 1 == end, nanoseconds); !error.ok()) return error;
      if (index >= warm_up && nanoseconds > 0) samples.push_back(nanoseconds);
    }
    return {};
  }

  ripc::Error floor_block(Floor& floor, std::uint64_t count, std::vector<double>& samples) {
    if (count == 0) return {};
    if (const auto error = order(kFloor, count); !error.ok()) return error;
    return floor.measure(side_, count, samples, tally_);
  }

  const Tally& tally() const noexcept { return tally_; }

 private:
  ripc::Error order(std::uint64_t kind, std::uint64_t count) {
    if (!side_.control.send({kind, count, sequence_}) || !side_.control.receive()) return other_side_ended();
    return {};
  }

  ripc::Error round(bool is_edge, double& nanoseconds) {
    const bool is_large = library_.kind != "short" && options_.size > kSmall;
    const bool whole = is_large && (is_edge || sequence_ % whole_every_ == 0);
    if (whole) std::fill(landing_.begin(), landing_.end(), std::byte{0});
    std::array<Item, 1> items = {options_.kind == "auto" ? ripc::item(request_) : ripc::short_item(request_)};
    ripc::SendOptions send_options;
    const ripc::ReturnBuffer landing = ripc::return_buffer(landing_);
    if (library_.kind == "long") {
      auto buffer = buffers_.take(sequence_);
      if (!buffer.ok()) return buffer.error();
      write_large(*buffer, sequence_);
      items[0] = payload_item(options_, *buffer);
      if (const auto error = library_.service.post_window(landing_, sequence_); !error.ok()) return error;
    } else {
      fill_pattern(request_, sequence_);
      if (options_.kind == "return") send_options.returns = std::span(&landing, 1);
    }
    const std::uint32_t flags = options_.kind == "lend" ? std::uint32_t{RIPC_RECEIVE_LEND} : 0U;

    const std::uint64_t start = clock_.now();
    auto ticket = library_.service.send(library_.peer, items, send_options);
    if (ticket.code() == RIPC_AGAIN) [[unlikely]]
      ticket = send_patiently(library_, items, send_options);
    if (!ticket.ok()) return ticket.error();
    auto message = library_.service.receive(kReplyPatience, flags);
    const std::uint64_t end = clock_.now();

    if (library_.kind == "long") buffers_.tickets[sequence_ % kBuffers] = *std::move(ticket);
    if (!message.ok()) {
      if (message.code() != RIPC_TIMEOUT) return message.error();
      // On a path that loses packets the rest of the block is lost too, because the other side counts messages.
      ++tally_.lost;
      return {RIPC_TIMEOUT,
              "A message was lost, which a round-trip measurement cannot go on without. Use a path "
              "without losses, or a smaller --size."};
    }
    nanoseconds = clock_.nanoseconds(end - start);
    check(message->item(0), whole);
    return {};
  }

  void check(const ripc::ItemView& view, bool whole) {
    const bool arrived = view.ok() && view.size() == options_.size;
    if (!arrived) {
      ++tally_.lost;
    } else if (library_.kind == "short") {
      tally_.check(check_pattern(view.bytes(), sequence_));
    } else if (whole) {
      ++tally_.checked;
      tally_.check_whole(check_large_whole(view.bytes(), sequence_, sequence_ % kBuffers));
    } else {
      tally_.check(check_large(view.bytes(), sequence_));
    }
  }

  Side& side_;
  const BenchOptions& options_;
  Library& library_;
  TickClock clock_;
  std::vector<std::byte> request_;
  std::uint64_t whole_every_;
  std::vector<std::byte> landing_;  // window, or return buffer
  Buffers buffers_;
  std::uint64_t sequence_ = 0;
  Tally tally_;
};

BenchResult measure_pingpong(Side& side, const BenchOptions& options, Floor& floor) {
  auto library = open_library(side, options);
  if (!library.ok()) return library.error();
  Pinger pinger(side, options, *library);
  if (const auto error = pinger.prepare(); !error.ok()) return error;

  constexpr std::uint64_t kBlocks = 10;
  const std::uint64_t per_block = std::max<std::uint64_t>(options.iterations / kBlocks, 1);
  const std::uint64_t warm_up = std::min<std::uint64_t>(per_block, 1000);
  std::vector<double> samples;
  std::vector<double> bare;
  samples.reserve(options.iterations + kBlocks);
  bare.reserve(options.iterations + kBlocks);
  std::uint64_t left = options.iterations;
  for (std::uint64_t block = 0; left > 0; ++block) {
    const std::uint64_t count = std::min(left, per_block);
    left -= count;
    if (const auto error = pinger.floor_block(floor, floor.rounds(count, block == 0), bare); !error.ok()) return error;
    if (const auto error = pinger.block(warm_up + count, warm_up, samples); !error.ok()) return error;
  }
  Json json;
  json["travels"] = library->kind;
  json["rtt_ns"] = percentiles(samples);
  const double p50 = json["rtt_ns"]["p50"].get<double>();
  const Json bare_figures = percentiles(bare);
  const double bare_p50 = bare_figures["p50"].get<double>();
  json[floor.name() + "_rtt_ns"] = bare_p50;
  json[floor.name() + "_rtt_mid_mean_ns"] = bare_figures["mid_mean"];
  json["ratio_to_" + floor.name()] = p50 / std::max(bare_p50, 1.0);
  pinger.tally().put(json);
  return json;
}

}  // namespace

BenchResult run_pingpong(const BenchOptions& options) {
  BenchOptions actual = options;
  if (actual.iterations == 0) {
    const bool is_copied = options.kind == "long" || options.kind == "auto" || options.kind == "return";
    const std::uint64_t by_size =
        is_copied ? (std::uint64_t{4} << 30) / std::max<std::uint64_t>(options.size, 1) : 200'000;
    actual.iterations = std::clamp<std::uint64_t>(by_size, 50, options.wait == "spin" ? 200'000 : 20'000);
  }
  Floor floor(actual);
  if (const auto error = floor.open(); !error.ok()) return error;
  auto result = run_pair(
      actual, [&](Side& side) { return pingpong_side(side, actual, floor); },
      [&](Side& side) { return measure_pingpong(side, actual, floor); });
  if (result.ok())
    (*result)["pattern"] = options.kind == "return" || options.kind == "lend" ? "short request, payload in the reply"
                                                                              : "payload both ways";
  return result;
}

}  // namespace cli::bench
